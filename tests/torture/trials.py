"""What is done to a run's files, in this process: each returns its outcome to the ledger."""

import errno
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from tests.resume.compare import newest_checkpoint
from tests.torture.file_calls import watched
from tests.torture.ledger import Ledger, Outcome
from tests.torture.rehearsal import Ended, Rehearsal

REGIONS = 5
"""Bytes flipped in each file: the first, the last, and those at a quarter, a half, three."""


def judge(rehearsal: Rehearsal, out: Path, ended: Ended) -> Outcome:
    """The outcome of a run that went on after something was done to it."""
    last = (ended.err.strip().splitlines() or [""])[-1]
    if ended.code != 0:
        return Outcome("refused" if ended.refused() else "crashed", said=last)
    num_bytes, num_rows = rehearsal.differing(out)
    if num_bytes or num_rows or ended.err:
        return Outcome("differs", num_bytes, num_rows, last)
    return Outcome("fell back" if "is passed over" in ended.out else "exact")


def resumed(rehearsal: Rehearsal, out: Path) -> Outcome:
    """Goes on with `out`; where there is no run yet, starts it as the sentence says."""
    ended = rehearsal.run(out, "--resume")
    if ended.refused() and "leave --resume out to start one there" in ended.err:
        ended = rehearsal.run(out)
    outcome = judge(rehearsal, out, ended)
    # A killed run is never refused.
    return outcome._replace(result="crashed") if outcome.result == "refused" else outcome


def killed_at_every_write(
    ledger: Ledger, agent: str, rehearsal: Rehearsal, folder: Path, every: int
) -> None:
    """Resumes from the files as each call of a run finds them.

    They are what SIGKILL leaves at that moment, because the operating system keeps what was
    written. Every `every`-th call is tried.
    """
    out, calls = folder / "run", folder / "calls"
    shutil.rmtree(folder, ignore_errors=True)
    number = 0

    def keep(kind: str, path: str) -> None:
        nonlocal number
        number += 1
        if number % every == 0:
            _copy(out, calls / f"{number:04d} {kind} {Path(path).name}"[:100])

    with watched(out, keep):
        ended = rehearsal.run(out)
    assert ended.code == 0, ended.err
    for left in sorted(calls.iterdir()):
        kind, name = "killed at every write", left.name[:4]
        ledger.try_once(kind, agent, name, resumed, rehearsal, left)
        shutil.rmtree(left)


def flipped_bytes(
    ledger: Ledger, agent: str, rehearsal: Rehearsal, folder: Path, every: int
) -> None:
    """Flips one bit in each region of each file that resuming reads."""
    newest = newest_checkpoint(rehearsal.reference)
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    files += sorted((rehearsal.reference / "checkpoints" / "frames").glob("*"))
    files.append(rehearsal.reference / "config.json")
    for number, file in enumerate(files):
        for region in range(REGIONS):
            if (number * REGIONS + region) % every == 0 and file.stat().st_size:
                name = f"{number} {region}"
                arguments = rehearsal, folder, file, region
                ledger.try_once("flipped byte", agent, name, _flip, *arguments)


def _flip(rehearsal: Rehearsal, folder: Path, file: Path, region: int) -> Outcome:
    out = folder / "run"
    _copy(rehearsal.reference, out)
    copy = out / file.relative_to(rehearsal.reference)
    data = bytearray(copy.read_bytes())
    data[(len(data) - 1) * region // (REGIONS - 1)] ^= 1 << region
    copy.write_bytes(data)
    outcome = judge(rehearsal, out, rehearsal.run(out, "--resume"))
    return outcome._replace(said=f"{copy.relative_to(out)}: {outcome.said}")


CREATING = ("open", "write", "os.mkdir")


def refused_writes(
    ledger: Ledger, agent: str, rehearsal: Rehearsal, folder: Path, every: int
) -> None:
    """A disk that is full, or a folder that is read-only, from the n-th call on."""
    out = folder / "run"

    def trial(code: int, first: int) -> Outcome:
        shutil.rmtree(folder, ignore_errors=True)
        number = 0

        def refuse(kind: str, path: str) -> None:
            nonlocal number
            number += 1
            if number >= first and (code == errno.EROFS or kind in CREATING):
                raise OSError(code, os.strerror(code), path)

        with watched(out, refuse):
            ended = rehearsal.run(out)
        if ended.code == 0:
            # What was left to do needed no room.
            return judge(rehearsal, out, ended)
        if not ended.refused():
            return Outcome("crashed", said=f"{ended.code} {ended.err[-300:]}")
        _wait_for_writers(out)
        return resumed(rehearsal, out)

    calls: list[str] = []
    shutil.rmtree(folder, ignore_errors=True)
    with watched(out, lambda kind, path: calls.append(kind)):
        rehearsal.run(out)
    for kind, code in (("full disk", errno.ENOSPC), ("read-only folder", errno.EROFS)):
        for first in range(1, len(calls), every):
            ledger.try_once(kind, agent, f"{first}", trial, code, first)


def _wait_for_writers(folder: Path) -> None:
    """Until threads of a run that failed add no more files, which the end of a process stops."""
    before: Any = None
    while (now := sorted(os.walk(folder))) != before:
        before = now
        time.sleep(0.3)


def jumping_clocks(
    ledger: Ledger, agent: str, rehearsal: Rehearsal, folder: Path, count: int
) -> None:
    """The wall clock jumps by years, the other one forward by hours, at every reading."""

    def trial(seed: int) -> Outcome:
        shutil.rmtree(folder, ignore_errors=True)
        rng, wall, monotonic, passed = random.Random(seed), time.time, time.monotonic, 0.0

        def later() -> float:
            nonlocal passed
            passed += rng.choice((0.0, 0.0, 3600.0))
            return monotonic() + passed

        with ExitStack() as patches:
            jump = 3e8
            patches.enter_context(
                mock.patch.object(time, "time", lambda: wall() + rng.uniform(-jump, jump))
            )
            patches.enter_context(mock.patch.object(time, "monotonic", later))
            ended = rehearsal.run(folder / "run")
        return judge(rehearsal, folder / "run", ended)

    for seed in range(count):
        ledger.try_once("jumping clock", agent, f"{seed}", trial, seed)


def lost_workers(
    ledger: Ledger, agent: str, rehearsal: Rehearsal, folder: Path, count: int
) -> None:
    """A worker of the environments dies or hangs; the run must say so and go on to its end."""

    def trial(number: signal.Signals, seconds: float) -> Outcome:
        shutil.rmtree(folder, ignore_errors=True)
        with _soon(lambda: _workers()[0].send_signal(number), seconds):
            ended = rehearsal.run(folder / "run")
        if ended.code != 0 or ended.err:
            return Outcome("crashed", said=f"{ended.code} {ended.err[-300:]}")
        if "a new worker takes over" not in ended.out:
            return Outcome("differs", said="nothing was said")
        # Its episodes are cut, so its rows are others, but none is missing.
        lost = len(_lines(rehearsal.reference)) - len(_lines(folder / "run"))
        return Outcome("exact" if not lost else "differs", differing_rows=abs(lost))

    for number in (signal.SIGKILL, signal.SIGSTOP):
        for turn in range(count):
            kind = f"worker {number.name}"
            ledger.try_once(kind, agent, f"{turn}", trial, number, 0.2 + 0.1 * turn)


def _lines(out: Path) -> list[str]:
    return [
        line for name in ("train.csv", "eval.csv") for line in (out / name).read_text().splitlines()
    ]


def _workers() -> list[psutil.Process]:
    """Living worker processes, oldest first; the zombies of those that ended have no command."""
    living = [c for c in psutil.Process().children() if c.status() != psutil.STATUS_ZOMBIE]
    found = [c for c in living if "re3_jax.envs.host.worker" in c.cmdline()]
    return sorted(found, key=lambda child: child.create_time())


@contextmanager
def _soon(act: Callable[[], None], seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.join()


ATTEMPTS = 100


def _copy(source: Path, target: Path) -> None:
    """Copies a folder into which another thread may be writing."""
    shutil.rmtree(target, ignore_errors=True)
    for attempt in range(ATTEMPTS):
        try:
            shutil.copytree(source, target, dirs_exist_ok=True)
            return
        except FileNotFoundError:
            # Nothing is there before the first call.
            target.mkdir(parents=True, exist_ok=True)
            return
        except shutil.Error:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.01)
