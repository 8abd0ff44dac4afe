"""Runs steps within a time, and keeps what each found as soon as it ends (io)."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu.steps import Step
from re3_jax.runs import installing
from re3_jax.runs.errors import UsageError
from re3_jax.runs.run_folder import write_json
from re3_jax.training.whole_file import replacing

SUMMARY = "summary.md"
LOGS = "logs"
PROGRAMS = "programs"

STOPPING_SECONDS = 45.0
"""Of its time, what a step that goes on has for its last chunk and a checkpoint."""

DONE, FAILED, OUT_OF_TIME = "done", "failed", "out of time"

COMPARED = "cpu", "devices", "jax", "jaxlib"
"""What all results of a folder have in common."""


class Result(NamedTuple):
    """How a step ended; its JSON file.

    Attributes:
      step: its name.
      command: what was run.
      result: `DONE`, `FAILED` or `OUT_OF_TIME`.
      reason: why it is not done; None if it is.
      seconds: that it took; of a step that goes on, in all.
      hardware: what it ran on.
      shown: its cell in the table.
      found: what it printed; what it printed before if it was done once. None if it never was.
    """

    step: str
    command: str
    result: str
    reason: str | None
    seconds: float
    hardware: dict[str, Any]
    shown: str
    found: dict[str, Any] | None

    @property
    def is_complete(self) -> bool:
        """Whether it does not go on."""
        return self.found is None or bool(self.found.get("complete", True))


def run(
    steps: Sequence[Step],
    folder: Path,
    seconds: float,
    hardware: dict[str, Any],
    say: Callable[[str], None],
    only: Collection[str] | None = None,
) -> None:
    """Runs the steps that `folder` has no result of, then again those that failed before.

    A step that no longer fits the time is left for the next call, except the first one. Those that
    can go on share what is left at the end.

    Args:
      steps: in order; all are in the table.
      folder: of results; each step adds NAME.json, and summary.md has a line for each.
      seconds: for all of them.
      hardware: what each result is of.
      say: is told what happens.
      only: names of the steps to run; by default all.

    Raises:
      UsageError: the results in `folder` are of another machine.
    """
    deadline, started = time.monotonic() + seconds, False
    kept = [(step, result(folder, step, hardware)) for step in steps]
    new = [step for step, found in kept if found is None]
    again = [step for step, found in kept if found is not None and found.result != DONE]
    _write_summary(folder, steps, hardware)
    for step in [*new, *again]:
        if only is not None and step.name not in only:
            continue
        left = deadline - time.monotonic()
        if started and left < step.seconds:
            say(f"{step.name}: {left:.0f} s are left and it may take {step.seconds:.0f}, next time")
            continue
        _try(step, folder, min(step.seconds, left), hardware, say)
        _write_summary(folder, steps, hardware)
        started = True
    on = [step for step in steps if step.goes_on and (only is None or step.name in only)]
    on = [step for step in on if _is_unfinished(result(folder, step, hardware))]
    # In order of value, where there is not enough for all.
    while on and (deadline - time.monotonic()) / len(on) <= 2 * STOPPING_SECONDS:
        on.pop()
    for place, step in enumerate(on):
        share = (deadline - time.monotonic()) / (len(on) - place)
        _try(step, folder, share, hardware, say)
        _write_summary(folder, steps, hardware)


def _is_unfinished(found: Result | None) -> bool:
    """Whether more time helps a step that goes on."""
    return found is not None and (found.result == OUT_OF_TIME or not found.is_complete)


def result(folder: Path, step: Step, hardware: dict[str, Any]) -> Result | None:
    """How a step ended; None if it was not run.

    Raises:
      UsageError: on another machine, or the file cannot be read.
    """
    path = folder / f"{step.name}.json"
    if not path.exists():
        return None
    try:
        kept = Result(**json.loads(path.read_text()))
        changed = [name for name in COMPARED if kept.hardware[name] != hardware[name]]
    except (OSError, ValueError, LookupError, TypeError):
        raise UsageError(f"{path} cannot be read: remove it to run the step again") from None
    if changed:
        raise UsageError(
            f"{path} was measured with another {' and '.join(changed)}: name another --out"
        )
    return kept


def _try(
    step: Step, folder: Path, seconds: float, hardware: dict[str, Any], say: Callable[[str], None]
) -> None:
    say(f"{step.name}: at most {seconds:.0f} s")
    log = folder / LOGS / f"{step.name}.log"
    log.parent.mkdir(exist_ok=True)
    before, begun = result(folder, step, hardware), time.monotonic()
    code, printed = _limited(step, seconds, log)
    took = time.monotonic() - begun
    found, shown = (before.found, before.shown) if before else (None, "")
    outcome, reason = DONE, None
    if code is None:
        outcome, reason = OUT_OF_TIME, f"stopped after {took:.0f} s"
    elif code != 0:
        said = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        outcome, reason = FAILED, f"exit code {code}: {said[-1][:300]}"
    else:
        found = _read(printed)
        try:
            shown = step.shown(found)
        except (LookupError, TypeError, ValueError) as error:
            outcome, reason = FAILED, f"it printed something else than was expected ({error!r})"
    seconds = took + (before.seconds if before and step.goes_on else 0.0)
    variables = [f"{name}={value}" for name, value in step.environment.items()]
    command = shlex.join([*variables, "python", "-m", *step.words])
    ended = Result(step.name, command, outcome, reason, round(seconds, 1), hardware, shown, found)
    write_json(folder / f"{step.name}.json", ended._asdict())
    say(f"{step.name}: {outcome} ({reason or f'{took:.0f} s'})")


def _limited(step: Step, seconds: float, log: Path) -> tuple[int | None, str]:
    """Exit code, None if it was killed for its time, and what it printed; ends its children too.

    What it compiles is kept, so that a step that was stopped while it compiled ends next time.
    """
    kept = {"JAX_COMPILATION_CACHE_DIR": str(log.parents[1] / PROGRAMS)}
    with (
        log.open("a") as errors,
        subprocess.Popen(
            [sys.executable, "-m", *step.words],
            env=kept | os.environ | step.environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=installing.ROOT,
            start_new_session=True,
        ) as process,
    ):
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                whole = max(0.0, seconds - STOPPING_SECONDS) if step.goes_on else seconds
                printed, _ = process.communicate(timeout=whole)
                return process.returncode, printed
            if step.goes_on:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    printed, _ = process.communicate(timeout=min(seconds, STOPPING_SECONDS))
                    return process.returncode, printed
            return None, ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _read(printed: str) -> dict[str, Any]:
    try:
        return dict(json.loads(printed))
    except ValueError:
        return {"lines": printed.splitlines()}


def _write_summary(folder: Path, steps: Sequence[Step], hardware: dict[str, Any]) -> None:
    kinds = ", ".join(f"{count} x {kind}" for kind, count in hardware["devices"].items())
    rows = ["| step | result | seconds | found |", "|---|---|---|---|"]
    for step in steps:
        kept = result(folder, step, hardware)
        if kept is None:
            rows.append(f"| {step.name} | not run | | |")
            continue
        said = "; ".join(text for text in (kept.shown, kept.reason) if text)
        cell = " ".join(said.split()).replace("|", "\\|")
        rows.append(f"| {step.name} | {kept.result} | {kept.seconds} | {cell} |")
    text = "\n".join(
        [
            f"# re3_jax on {kinds}",
            "",
            f"{hardware['cpu']}, {hardware['cores']} cores, AVX-512: {hardware['avx512']}; jax "
            f"{hardware['jax']}, jaxlib {hardware['jaxlib']}, {hardware['runtime']}.",
            "",
            *rows,
        ]
    )
    with replacing(folder / SUMMARY) as part:
        part.write_text(text + "\n")
