"""A run that was killed or stopped and then resumed equals an uninterrupted one."""

import csv
import json
import random
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from re3_jax.runs import run_folder
from tests.resume.compare import assert_same_run, leaves, newest_checkpoint, rows, scalars
from tests.resume.conftest import OPTIONS, ROOT, STEPS

pytestmark = [pytest.mark.resume, pytest.mark.slow]

OFTEN = ("--checkpoint-seconds", "0.05")


def wait_for_rows(process: subprocess.Popen[str], table: Path, count: int) -> None:
    """Returns when `table` has `count` rows."""
    deadline = time.monotonic() + 600
    while not table.exists() or len(table.read_text().splitlines()) <= count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def wait_for_a_checkpoint_of_trained_frames(process: subprocess.Popen[str], run: Path) -> None:
    """Returns when there is one beside those before and after the evaluation at env frame 0."""
    deadline = time.monotonic() + 600
    while int(newest_checkpoint(run).name) <= 1:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def resumed_at(said: str) -> int:
    """The env frame that a resumed run says it goes on from."""
    (frame,) = re.findall(r"^resuming from env frame ([\d,]+)$", said, re.MULTILINE)
    return int(frame.replace(",", ""))


def test_the_reference_fills_the_ring_and_ends_episodes(reference):
    """Otherwise the equality tests below would prove little."""
    state = leaves(reference)
    assert sum(array.nbytes for array in state.values()) > 2 * 512 * 64 * 4
    assert len(rows(reference / "train.csv")) == 2 * 100
    assert len(rows(reference / "eval.csv")) == 2 * 6
    assert {row["seed"] for row in rows(reference / "eval.csv")} == {"1", "2"}
    returns = [row["episode_return_mean"] for row in rows(reference / "train.csv")]
    assert sum(value != "nan" for value in returns) > 10


def test_killed_terminated_and_interrupted(reference, start, environment, tmp_path):
    """SIGKILL at a random moment, then SIGTERM, then Ctrl-C, then the command it prints."""
    out = tmp_path / "run"
    words = (*OPTIONS, *OFTEN, "--out", str(out))
    process = start(*words)
    count, seconds = random.randint(10, 60), random.uniform(0, 0.05)
    # pytest prints this with any failure below; the numbers reproduce the moment.
    print(f"SIGKILL {seconds} s after row {count} of train.csv")
    wait_for_rows(process, out / "train.csv", count)
    wait_for_a_checkpoint_of_trained_frames(process, out)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL

    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        # The folder may hold rows that the next process removes before it adds its own.
        before = len((out / "train.csv").read_text().splitlines())
        process = start(*words, "--resume")
        wait_for_rows(process, out / "train.csv", before + 10)
        process.send_signal(number)
        said, err = process.communicate(timeout=1200)
        assert (process.returncode, err) == (code, "")
        assert resumed_at(said) > 0
        assert json.loads((out / "summary.json").read_text())["complete"] is False
    stopped_at = int(rows(out / "train.csv")[-1]["env_frames"])
    assert 0 < stopped_at < STEPS

    command = shlex.split(said.splitlines()[-1].partition("to resume: ")[2])
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert resumed_at(done.stdout) == stopped_at
    assert_same_run(out, reference)
    final = [json.loads((p / "summary.json").read_text())["final_return"] for p in (out, reference)]
    assert final[0] == final[1]


def test_finished_run_with_a_truncated_checkpoint_is_extended(reference, finish, tmp_path):
    """It falls back to the previous checkpoint, and equals an uninterrupted run of that length."""
    out = tmp_path / "run"
    finish(*OPTIONS, *OFTEN, "--steps", "5120", "--out", str(out))
    truncate(newest_checkpoint(out))
    said = finish("--out", str(out), "--resume", "--steps", str(STEPS))
    assert "is damaged and is passed over" in said
    assert_same_run(out, reference)
    config = json.loads((out / "config.json").read_text())
    assert config["config"]["steps"] == STEPS
    assert len(config["resumed"]) == 1


def test_killed_before_the_first_checkpoint_starts_again(reference, finish, tmp_path):
    """The folder holds config.json alone; the run is a shorter one here."""
    out = tmp_path / "run"
    out.mkdir()
    config = json.loads((reference / "config.json").read_text())
    config["config"] |= {"steps": 2560, "out": str(out)}
    del config[run_folder.CONFIG_DIGEST]
    (out / "config.json").write_text(json.dumps(config))
    said = finish("--out", str(out), "--resume")
    assert "stopped before its first checkpoint: starting it" in said
    for table, count in (("train.csv", 2 * 20), ("eval.csv", 2 * 2)):
        assert rows(out / table) == rows(reference / table)[:count]
    assert json.loads((out / "summary.json").read_text())["complete"] is True


def test_events_of_a_killed_run_are_those_of_its_rows(reference, start, finish, tmp_path):
    """Its only checkpoint is the one at its start, so all its events are hidden."""
    out = tmp_path / "run"
    process = start(*OPTIONS, "--loggers", "tensorboard", "--out", str(out))
    wait_for_rows(process, out / "train.csv", 60)
    process.kill()
    process.communicate()
    said = finish("--out", str(out), "--resume")
    assert resumed_at(said) == 0
    assert_same_run(out, reference)
    shown, hidden = scalars(out)
    assert len(hidden["train/loss"]) > 0
    assert shown["train/loss"] == pytest.approx(means(out / "train.csv", "loss"), rel=1e-5)
    returns = means(out / "eval.csv", "return_mean")
    assert shown["evaluation/return_mean"] == pytest.approx(returns, rel=1e-5)


def means(table: Path, column: str) -> dict[int, float]:
    """Env frame -> mean over seeds."""
    values: dict[int, list[float]] = {}
    for row in rows(table):
        values.setdefault(int(row["env_frames"]), []).append(float(row[column]))
    return {frame: float(np.mean(found)) for frame, found in values.items()}


def test_every_checkpoint_truncated(reference, start, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(reference, out)
    for checkpoint in (out / "checkpoints").iterdir():
        truncate(checkpoint)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    process = start("--out", str(out), "--resume")
    _, err = process.communicate(timeout=1200)
    assert process.returncode == 2
    assert len(err.splitlines()) == 1
    assert "every checkpoint" in err and "damaged" in err
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


def test_run_folder_is_complete(reference):
    """The folder has every file of a finished run."""
    config = json.loads((reference / "config.json").read_text())
    assert config["config"]["a2c"]["num_envs"] == 4
    assert config["versions"]["jax"] and config["python"] and config["device"]["count"]
    with (reference / "eval.csv").open() as lines:
        assert next(csv.reader(lines)) == (
            "seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean".split(",")
        )
    first, last = rows(reference / "eval.csv")[0], rows(reference / "eval.csv")[-1]
    assert (first["env_frames"], last["env_frames"]) == ("0", str(STEPS))
    summary = json.loads((reference / "summary.json").read_text())
    assert summary["complete"] is True
    assert summary["final_return"]["2"] == float(last["return_mean"])
    for name in ("frames_per_second", "compile_seconds", "peak_host_bytes"):
        assert summary[name] > 0
    assert (reference / "curve.png").read_bytes().startswith(b"\x89PNG")


def truncate(checkpoint: Path) -> None:
    """Cuts the largest file of a checkpoint in half."""
    largest = max((p for p in checkpoint.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
