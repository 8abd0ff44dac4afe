"""A full disk ends a run with one sentence, and earlier checkpoints stay intact.

A limit on file size stands for the full disk: the operating system refuses the same write, and the
test need not fill a file system.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from re3_jax.commands import train
from re3_jax.runs import machine, run_folder

ROOT = Path(__file__).parents[2]
OPTIONS = ("--env", "minigrid:DoorKey-5x5", "--preset", "debug")
LIMITED = """
import resource, runpy

hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
runpy.run_module("experiments.train", run_name="__main__", alter_sys=True)
"""
"""experiments.train on a disk that holds config.json but no checkpoint."""

SAVE_TWICE = """
import resource, sys
from pathlib import Path
import numpy as np
from re3_jax.training.checkpoint import CheckpointStore

noise = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8)
folder = Path(sys.argv[1])
store = CheckpointStore(folder)
store.save(1, {"x": noise}, {"chunks": 1})
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, unlimited[1]))
try:
    store.save(2, {"x": noise + 1}, {"chunks": 2})
except OSError as error:
    print(error.errno, error.filename)
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
store.close()

store = CheckpointStore(folder)
state, record = store.restore({"x": noise}, print)
assert (state["x"] == noise).all()
print(record)
store.save(2, {"x": noise + 1}, {"chunks": 2})
print(store.steps())
"""


@pytest.mark.slow
def test_run_on_a_full_disk(tmp_path):
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *OPTIONS, "--out", str(out)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"},
        timeout=1200,
    )
    assert done.returncode == 2, done.stderr
    # matplotlib may print a line before it: its font cache does not fit either.
    assert done.stderr.endswith(
        f"error: {out / run_folder.CHECKPOINTS} cannot be written (File too large): "
        "make room and continue with --resume\n"
    )
    assert "Traceback" not in done.stderr


def test_output_on_a_full_disk_is_named_beside_the_folder(monkeypatch, capsys):
    def full(config, processes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("keep_compiled_programs", "use_cpu_devices"):
        monkeypatch.setattr(machine, name, lambda *_: None)
    monkeypatch.setattr(train, "run", full)
    assert train.main([*OPTIONS]) == 2
    said = capsys.readouterr().err
    assert "the run folder, or the file that the output goes to, cannot be written (No sp" in said


def test_checkpoints_before_a_full_disk_stay_intact(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SAVE_TWICE, str(tmp_path / "checkpoints")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"27 {tmp_path / 'checkpoints'}",
        "{'chunks': 1}",
        "[1, 2]",
    ]
