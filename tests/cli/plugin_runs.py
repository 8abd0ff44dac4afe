"""Runs of plugins, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command(*argv):
    """Runs in its own process, because a process keeps what a plugin registers."""
    return subprocess.run(
        [sys.executable, "-m", "experiments.train", *argv],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        timeout=1200,
    )
