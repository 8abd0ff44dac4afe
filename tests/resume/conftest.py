"""Runs in their own processes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "experiments.train"]
STEPS = 12_800
OPTIONS = (
    *("--env", "minigrid:DoorKey-5x5", "--preset", "debug", "--steps", f"{STEPS}"),
    *("--chunk-updates", "4", "--evaluation.every-env-frames", "2560"),
)
"""100 chunks, six evaluations and, with a tiny interval, dozens of checkpoints."""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Compiles with little optimisation, because speed does not matter here."""
    return {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0",
        # A killed process may have left half an entry, which JAX never replaces.
        "PYTHONWARNINGS": "ignore:Error reading persistent compilation cache entry:UserWarning",
    }


@pytest.fixture(scope="session")
def start(environment) -> Start:
    """Starts `experiments.train` with the given words."""

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    return start


@pytest.fixture(scope="session")
def finish(start) -> Callable[..., str]:
    """Runs `experiments.train` to its end and returns its output."""

    def finish(*words: str) -> str:
        process = start(*words)
        out, err = process.communicate(timeout=1200)
        assert process.returncode == 0, err
        assert err == ""
        return out

    return finish


@pytest.fixture(scope="session")
def reference(finish, tmp_path_factory) -> Path:
    """An uninterrupted run; it writes checkpoints at its start and its end only."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    finish(*OPTIONS, "--out", str(folder))
    return folder
