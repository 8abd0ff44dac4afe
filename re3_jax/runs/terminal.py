"""Output of a run: a live line on a terminal or in a notebook, sometimes a plain one elsewhere."""

import importlib.util
import math
import os
import sys
import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

PLAIN_LINE_SECONDS = 10.0


@dataclass(frozen=True)
class Standing:
    """Progress of a run.

    Attributes:
      env_frames: done, per seed.
      total_env_frames: to do, per seed.
      frames_per_second: env frames of all seeds per second, evaluations included.
      eta_seconds: until the end at this speed.
      evaluation_return: latest mean over seeds.
      intrinsic_reward: latest mean over seeds.
    """

    env_frames: int
    total_env_frames: int
    frames_per_second: float
    eta_seconds: float
    evaluation_return: float
    intrinsic_reward: float

    def words(self) -> str:
        """The line without the bar; with the bar it fits into 80 columns."""
        share = min(1.0, self.env_frames / self.total_env_frames)
        return (
            f"{share:4.0%} {_short(self.env_frames)}/{_short(self.total_env_frames)} frames "
            f"{_short(self.frames_per_second)}/s ETA {clock(self.eta_seconds)} "
            f"return {_number(self.evaluation_return, '.3f')} "
            f"r_int {_number(self.intrinsic_reward, '.4f')}"
        )


def redraws(console: Console) -> bool:
    """Whether a console can draw anew what it has shown.

    FORCE_COLOR makes rich call a file a terminal, and a dumb terminal is one.
    """
    # What stands in for standard output may have no isatty.
    isatty = getattr(console.file, "isatty", lambda: False)
    return console.is_terminal and not console.is_dumb_terminal and isatty()


class _LastingConsole(Console):
    """Says nothing more after its reader has gone, such as `head`, and lets the run go on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Terminal:
    """Writes to standard output; safe to call from another thread."""

    def __init__(self, quiet: bool = False) -> None:
        """Finds out where standard output goes; nothing is written if `quiet`."""
        # A task such as brax:ant is no emoji.
        self._console = _LastingConsole(
            quiet=quiet, highlight=False, markup=False, emoji=False, soft_wrap=True
        )
        # Without ipywidgets, rich warns and shows nothing in a notebook.
        in_notebook = self._console.is_jupyter and importlib.util.find_spec("ipywidgets")
        self._is_live = not quiet and (redraws(self._console) or bool(in_notebook))
        self._last_plain = 0.0
        self._bar = Progress(
            BarColumn(bar_width=10),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not self._is_live,
        )
        self._task = self._bar.add_task("")

    def say(self, text: str) -> None:
        """Prints a permanent line above the live one."""
        self._console.print(text)

    def show(self, standing: Standing) -> None:
        """Redraws the live line, or prints a plain one if the last is old enough."""
        if not self._is_live:
            if time.monotonic() - self._last_plain >= PLAIN_LINE_SECONDS:
                self._last_plain = time.monotonic()
                self.say(standing.words().strip())
            return
        done, total = standing.env_frames, standing.total_env_frames
        self._bar.update(self._task, total=total, completed=done, description=standing.words())
        self._bar.start()

    def close(self) -> None:
        """Removes the live line."""
        if self._bar.live.is_started:
            self._bar.stop()


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 0:43:10."""
    if math.isnan(seconds):
        return "-"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def _short(count: float) -> str:
    """Three digits and a unit: 950, 12.8k, 2.40M."""
    if math.isnan(count):
        return "-"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            scaled = count / size
            return f"{scaled:.{max(0, 3 - len(str(int(scaled))))}f}{unit}"
    return f"{count:.0f}"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
