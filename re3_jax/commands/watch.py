"""A live view of a run in the terminal, while it trains elsewhere.

    make watch RUN=runs/a
    python -m re3_jax.commands.watch RUN_DIR [--every SECONDS]

Reads the run folder alone, so that nothing it does can disturb the run. Ends with the run; Ctrl-C
ends the view, with exit code 130. Where standard output is no terminal, it prints the view once.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from re3_jax.plural import number_of
from re3_jax.runs import installing, statistics, text_chart
from re3_jax.runs.errors import Parser, UsageError, in_one_sentence
from re3_jax.runs.progress import Columns, Progress, read
from re3_jax.runs.terminal import redraws

WIDEST = 100
"""Columns of the view."""

MOST_SEEDS = 12
"""Seeds with a line of their own."""

OTHER_LINES = 13
"""Lines of the view beside the larger chart and the seeds."""


def view(folder: Path, seen: Progress, width: int, height: int) -> RenderableType:
    """What is shown of a run, in so many characters and lines if that is enough."""
    o, width = seen.options, min(width, WIDEST)
    what = f"{o['env']}: {o['agent']} + {o['bonus']}, preset {o['preset']}"
    title = f"{what}, {number_of(o['seeds'], 'seed')}"
    head = Table.grid()
    head.add_row(Text(title, style="bold"))
    head.add_row(ProgressBar(total=o["steps"], completed=seen.env_frames, width=width))
    head.add_row(Text(seen.standing().words().strip()))
    tall = max(3, min(10, height - OTHER_LINES - min(o["seeds"], MOST_SEEDS)))
    return Group(head, *_charts(seen, width, tall), _of_seeds(seen), *_last_lines(folder, seen))


def _charts(seen: Progress, width: int, tall: int) -> Iterator[RenderableType]:
    for columns, name, words, height in (
        (seen.evaluations, "return_mean", "evaluation return", tall),
        (seen.train, "intrinsic_reward_mean", "intrinsic reward", 3),
    ):
        line = _line(columns, name)
        if line is not None:
            yield Text(f"{words}, mean over seeds and 95% band", style="dim")
            yield text_chart.chart(line, width, height, seen.options["steps"])


def _line(columns: Columns, name: str) -> text_chart.Line | None:
    """The curve of a column; None before there are two points."""
    values = columns.get(name, np.zeros((1, 0)))
    kept = np.isfinite(values).all(axis=0)
    if kept.sum() < 2:
        return None
    frames, values = columns["env_frames"][kept], values[:, kept]
    return text_chart.Line(frames.astype(float), *statistics.mean_interval(values))


def _of_seeds(seen: Progress) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    shown = {
        "evaluation return": seen.latest(seen.evaluations, "return_mean"),
        "return in training": seen.latest(seen.train, "episode_return_mean"),
        "intrinsic reward": seen.latest(seen.train, "intrinsic_reward_mean"),
    }
    for name in ("seed", *shown):
        table.add_column(name, justify="right")
    first, seeds = seen.options["seed"], seen.options["seeds"]
    for i in range(min(seeds, MOST_SEEDS)):
        cells = (f"{values[i]:.4g}" if np.isfinite(values[i]) else "-" for values in shown.values())
        table.add_row(str(first + i), *cells)
    if seeds > MOST_SEEDS:
        table.add_row(f"and {seeds - MOST_SEEDS} more")
    return table


def _last_lines(folder: Path, seen: Progress) -> Iterator[Text]:
    if seen.video is not None:
        yield Text(f"newest video: {seen.video}")
    if seen.is_running:
        yield Text("Ctrl-C ends this view, not the run", style="dim")
    elif seen.is_complete:
        yield Text(f"the run is complete: {folder}")
    else:
        yield Text("no process trains this run now; to continue it:")


def _say_how_to_continue(folder: Path, seen: Progress) -> None:
    """In a line that only the terminal breaks, so that it can be pasted."""
    if not seen.is_running and not seen.is_complete:
        print(installing.resuming(folder))


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Shows the view until the run ends; returns the exit code (0, 2 or 130)."""
    parser = Parser("python -m re3_jax.commands.watch")
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN_DIR")
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS")
    words = parser.parse_args(argv)
    if words.run is None:
        example = installing.example("watch", "RUN", "runs/a")
        raise UsageError(f"give the folder of a run, as in {example}")
    if not 0 < words.every <= threading.TIMEOUT_MAX:
        raise UsageError(f"--every {words.every} is no time to wait: give seconds above 0")
    # The blocks of the curve are not of every encoding.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    console, folder = Console(highlight=False), words.run

    def show(seen: Progress) -> RenderableType:
        return view(folder, seen, console.width, console.height)

    seen = read(folder)
    if not redraws(console):
        console.print(show(seen))
        _say_how_to_continue(folder, seen)
        return 0
    try:
        with Live(show(seen), console=console, auto_refresh=False) as live:
            while seen.is_running:
                time.sleep(words.every)
                seen = read(folder)
                live.update(show(seen), refresh=True)
    except KeyboardInterrupt:
        return 130
    _say_how_to_continue(folder, seen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
