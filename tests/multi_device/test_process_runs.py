"""Runs of several processes equal those of one: killed, resumed, and moved."""

import signal
from pathlib import Path

import pytest

from tests.multi_device.launch import Started, finished, launch
from tests.resume.compare import assert_rows_close, assert_same_run
from tests.resume.test_exact_resume import wait_for_rows

pytestmark = [pytest.mark.multi_device, pytest.mark.resume, pytest.mark.slow]

A2C = (
    *("--env", "minigrid:DoorKey-5x5", "--preset", "debug", "--seeds", "4", "--steps", "3840"),
    *("--chunk-updates", "4", "--evaluation.every-env-frames", "1280"),
    *("--evaluation.episodes", "4", "--loggers", "none"),
)
RAD = (
    *("--env", "pendulum_swingup", "--preset", "debug", "--dmc.renderer", "warp", "--seeds", "2"),
    *("--dmc.image-size", "24", "--sac.augmentation", "shift"),
    *("--chunk-updates", "20", "--evaluation.every-env-frames", "400"),
    *("--evaluation.episodes", "1", "--loggers", "none"),
)
OFTEN = ("--checkpoint-seconds", "0.5")


def start(count: int, seeds: int, out: Path, *words: str) -> Started:
    """A run with one seed per device: otherwise a device's seeds are batched."""
    command = ["-m", "experiments.train", *words, "--out", str(out)]
    return launch(count, command, devices=seeds // count)


def kill_second(processes: Started, out: Path, rows: int) -> None:
    """SIGKILL to the second process; the first ends by itself, with a sentence."""
    wait_for_rows(processes[0], out / "train.csv", rows)
    processes[1].send_signal(signal.SIGKILL)
    first, *others = processes
    said, err = first.communicate(timeout=1200)
    assert first.returncode == 2, err
    assert "another process of this run ended" in err and "--resume" in err
    assert "Traceback" not in err
    for other in others:
        other.communicate(timeout=1200)


def test_a2c_on_two_and_four_processes(tmp_path):
    reference, out = tmp_path / "reference", tmp_path / "run"
    finished(start(1, 4, reference, *A2C))
    kill_second(start(2, 4, out, *A2C, *OFTEN), out, 32)
    processes = start(4, 4, out, *A2C, *OFTEN, "--resume")
    before = len((out / "train.csv").read_text().splitlines())
    wait_for_rows(processes[0], out / "train.csv", before + 24)
    processes[3].send_signal(signal.SIGTERM)
    said = [process.communicate(timeout=1200)[0] for process in processes]
    assert [process.returncode for process in processes] == [143] * 4
    assert "resuming from env frame" in said[0] and "to resume:" in said[0]
    # The others say nothing but what the library of collectives says.
    assert all(line.startswith("[Gloo]") for text in said[1:] for line in text.splitlines())
    finished(start(2, 4, out, *A2C, *OFTEN, "--resume"))
    assert_same_run(out, reference)


def test_rad_on_two_processes_and_then_on_one(tmp_path):
    """The lanes of a seed are stepped by the process that has it, and move with it.

    On some processors XLA compiles its update for one device to other instructions than for two:
    a run of one process is close, and after 1,200 frames two that differ in the last bit may meet
    other near ties. So what is the same bits has moved in the same way, and was never killed.
    """
    pytest.importorskip("dm_control")
    reference, out, of_one = (tmp_path / name for name in ("reference", "run", "of_one"))
    first, whole = ("--steps", "1200"), ("--steps", "1600")
    finished(start(1, 2, of_one, *RAD, *first))
    finished(start(2, 2, reference, *RAD, *first))
    kill_second(start(2, 2, out, *RAD, *first, *OFTEN), out, 2)
    finished(start(2, 2, out, *RAD, *first, *OFTEN, "--resume"))
    assert_rows_close(out, of_one, rel=0.02)
    for run in (reference, out):
        finished(start(1, 2, run, *RAD, *whole, "--resume"))
    assert_same_run(out, reference)


def test_seeds_that_do_not_divide_are_refused(tmp_path):
    processes = start(2, 2, tmp_path / "run", *A2C, "--seeds", "3")
    errors = [process.communicate(timeout=1200)[1] for process in processes]
    assert [process.returncode for process in processes] == [2, 2]
    assert "--seeds 3 cannot be spread evenly over 2 processes" in errors[0]
    assert not (tmp_path / "run").exists()
