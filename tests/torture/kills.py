"""SIGKILL at random moments, and what is left of a run's speed when it comes every 30 seconds."""

import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.torture.differences import differing_bytes
from tests.torture.ledger import Ledger, Outcome
from tests.torture.rehearsal import CASES, COMMON, differing_rows

GOODPUT = (
    *("--env", "doorkey_6x6", "--seeds", "2", "--steps", "16000000", "--evaluation.episodes", "20"),
    *("--evaluation.every-env-frames", "64000", "--checkpoint-seconds", "5"),
)
"""A run of a few minutes whose checkpoints come more often than the kills."""

KILL_SECONDS = 30.0
PATIENCE = 3
"""Kills in a row after which a run must have a newer checkpoint."""


def random_kills(ledger: Ledger, agent: str, folder: Path, count: int) -> None:
    """Kills one process after the other of runs that go on, and compares each run that ends.

    A trial is a kill; it survived if the run that went on from it ended equal to the reference.
    """
    words = *CASES[agent], *COMMON, "--checkpoint-seconds", "0"
    if (first := ledger.count("random SIGKILL", agent)) >= count:
        return
    shutil.rmtree(folder, ignore_errors=True)
    reference, out = folder / "reference", folder / "run"
    # Twice, because the first one compiles.
    for _ in range(2):
        shutil.rmtree(reference, ignore_errors=True)
        started = time.monotonic()
        process = _start([*words, "--out", str(reference)])
        process.join()
        assert process.exitcode == 0
        seconds = time.monotonic() - started
    rng, kills = random.Random(f"{agent} {first}"), []
    while first + len(kills) < count or kills:
        before = _newest(out)
        process = _start([*words, "--out", str(out), *_resume(out)])
        if first + len(kills) >= count:
            process.join()
        elif rng.random() < 0.5:
            process.join(rng.uniform(0.3, 1.0) * seconds)
        else:
            # However slow the machine has become, half of them meet a run that trains.
            while process.exitcode is None and _newest(out) == before:
                process.join(0.05)
            process.join(rng.uniform(0.0, 0.2) * seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            kills.append(f"{first + len(kills)}")
            continue
        outcome = Outcome("crashed", said=f"exit code {process.exitcode}")
        if process.exitcode == 0:
            found = differing_bytes(out, reference), differing_rows(out, reference)
            outcome = Outcome("differs" if any(found) else "exact", *found)
        for name in kills:
            ledger.try_once("random SIGKILL", agent, name, Outcome, *outcome)
        first, kills = first + len(kills), []
        shutil.rmtree(out)


def goodput(folder: Path) -> dict[str, Any]:
    """Seconds of a run undisturbed, and killed every `KILL_SECONDS` seconds.

    Raises:
      RuntimeError: a run fails, or gets no further between two kills on this machine.
    """
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "experiments.train", *GOODPUT]
    out, load, started = folder / "b", os.getloadavg()[0], time.monotonic()
    subprocess.run([*command, "--out", f"{folder}/a"], check=True, capture_output=True)
    seconds = time.monotonic() - started
    started, reached = time.monotonic(), [-1]
    while (code := _killed([*command, "--out", str(out), *_resume(out)])) is None:
        reached.append(_newest(out))
        if len(reached) > PATIENCE and reached[-1] == reached[-1 - PATIENCE]:
            raise RuntimeError(
                f"{KILL_SECONDS:.0f} s are too few to get further here, with a load of {load:.1f}"
            )
    if code != 0:
        raise RuntimeError(f"the run ended with exit code {code}")
    disturbed = time.monotonic() - started
    return {
        "command": " ".join(["python", *command[1:]]),
        "load_average": round(load, 1),
        "seconds": round(seconds, 1),
        "seconds_with_kills": round(disturbed, 1),
        "kills": len(reached) - 1,
        "goodput": round(seconds / disturbed, 3),
        "differing_bytes": differing_bytes(out, folder / "a"),
        "lost_rows": differing_rows(out, folder / "a"),
    }


def _killed(command: Sequence[str]) -> int | None:
    """Exit code of a run that ended within `KILL_SECONDS`; None if it had to be killed."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            return process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return None


def _newest(out: Path) -> int:
    """The number of the newest checkpoint; -1 before the first."""
    names = (path.name for path in out.glob("checkpoints/*"))
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _resume(out: Path) -> tuple[str, ...]:
    return ("--resume",) if (out / "config.json").exists() else ()


_forks = multiprocessing.get_context("forkserver")


def _start(words: Sequence[str]) -> BaseProcess:
    """`experiments.train` in a process that need not import everything anew."""
    _forks.set_forkserver_preload(["experiments.train"])
    process = _forks.Process(target=_train, args=(list(words),))
    process.start()
    return process


def _train(words: list[str]) -> None:
    from re3_jax.commands import train

    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    sys.exit(train.main(words))
