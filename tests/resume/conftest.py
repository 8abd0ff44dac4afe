"""Runs as processes of their own, with one compilation cache for the session."""

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
def environment(tmp_path_factory) -> dict[str, str]:
    """Compiled once and in haste: what is tested does not depend on how fast the code is."""
    return {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("xla")),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0",
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
    """Runs `experiments.train` to its end and returns what it said."""

    def finish(*words: str) -> str:
        process = start(*words)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert err == ""
        return out

    return finish


@pytest.fixture(scope="session")
def reference(finish, tmp_path_factory) -> Path:
    """A run that was never stopped; it checkpoints at its start and its end only."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    finish(*OPTIONS, "--out", str(folder))
    return folder
