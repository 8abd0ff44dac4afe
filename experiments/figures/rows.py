"""One row of a figure: a training run in a process of its own, run once and gone on with."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import run_folder


def ensure(folder: Path, options: Sequence[str]) -> None:
    """Runs `python -m experiments.train` with `options` to its end, unless that was done.

    Raises:
      SystemExit: the run failed or was stopped; with its exit code.
    """
    summary = folder / "summary.json"
    if summary.exists() and json.loads(summary.read_text())["complete"]:
        return
    command = [sys.executable, "-m", "experiments.train", *options]
    command += ["--out", str(folder), "--no-tensorboard"]
    if (folder / run_folder.CONFIG).exists():
        command.append("--resume")
    code = subprocess.run(command, check=False).returncode
    if code:
        raise SystemExit(code)
