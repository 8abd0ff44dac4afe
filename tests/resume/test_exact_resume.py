"""A run that was killed or stopped and went on equals one that never stopped."""

import csv
import json
import random
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.resume.compare import assert_same_run, leaves, newest_checkpoint, rows
from tests.resume.conftest import OPTIONS, ROOT

pytestmark = pytest.mark.resume


def wait_for_rows(process: subprocess.Popen[str], table: Path, count: int) -> None:
    """Returns when `table` has `count` rows."""
    deadline = time.monotonic() + 240
    while not table.exists() or len(table.read_text().splitlines()) <= count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_reference_covers_what_must_survive(reference):
    """Otherwise equality below would say little: the ring is full and episodes have ended."""
    state = leaves(reference)
    assert sum(array.nbytes for array in state.values()) > 2 * 512 * 64 * 4
    assert len(rows(reference / "train.csv")) == 2 * 188
    assert len(rows(reference / "eval.csv")) == 2 * 11
    assert {row["seed"] for row in rows(reference / "eval.csv")} == {"1", "2"}
    returns = [row["episode_return_mean"] for row in rows(reference / "train.csv")]
    assert sum(value != "nan" for value in returns) > 20


def test_killed_at_random_moments(reference, start, finish, tmp_path):
    draw = random.Random()
    out = tmp_path / "run"
    words = (*OPTIONS, "--out", str(out), "--checkpoint-seconds", "0.05")
    kills = []
    for attempt in range(2):
        process = start(*words, *(["--resume"] if attempt else []))
        kills.append((draw.randint(20, 120) + 200 * attempt, draw.uniform(0, 0.05)))
        wait_for_rows(process, out / "train.csv", kills[-1][0])
        time.sleep(kills[-1][1])
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    said = finish(*words, "--resume")
    assert "going on from env frame" in said, kills
    assert_same_run(out, reference)
    final = [json.loads((p / "summary.json").read_text())["final_return"] for p in (out, reference)]
    assert final[0] == final[1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_by_a_signal(reference, start, environment, tmp_path, number, code):
    out = tmp_path / "run"
    process = start(*OPTIONS, "--out", str(out))
    wait_for_rows(process, out / "train.csv", 40)
    process.send_signal(number)
    said, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (code, "")
    assert json.loads((out / "summary.json").read_text())["complete"] is False
    stopped_at = rows(out / "train.csv")[-1]["env_frames"]
    assert int(stopped_at) < 24_000
    command = said.splitlines()[-1].partition("to go on: ")[2]
    again = subprocess.run(
        shlex.split(command), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert (again.returncode, again.stderr) == (0, "")
    assert f"{int(stopped_at):,}" in again.stdout
    assert_same_run(out, reference)


def test_newest_checkpoint_truncated(reference, start, finish, tmp_path):
    out = tmp_path / "run"
    process = start(*OPTIONS, "--out", str(out), "--checkpoint-seconds", "0.3")
    wait_for_rows(process, out / "train.csv", 200)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    truncate(newest_checkpoint(out))
    said = finish("--out", str(out), "--resume")
    assert "is damaged and is passed over" in said
    assert_same_run(out, reference)


def test_every_checkpoint_truncated(reference, start, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(reference, out)
    for checkpoint in (out / "checkpoints").iterdir():
        truncate(checkpoint)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    process = start("--out", str(out), "--resume")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert len(err.splitlines()) == 1
    assert "every checkpoint" in err and "damaged" in err
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


def test_checkpoints_gone(reference, start, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(reference, out)
    shutil.rmtree(out / "checkpoints")
    process = start("--out", str(out), "--resume")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert len(err.splitlines()) == 1 and "no checkpoint" in err
    assert rows(out / "train.csv") == rows(reference / "train.csv")


def test_a_finished_run_is_extended(reference, finish, tmp_path):
    """More steps on top of a finished run equal a run of that many steps from the start."""
    short, long = tmp_path / "short", tmp_path / "long"
    shorter = (*OPTIONS[:5], "12800", *OPTIONS[6:])
    finish(*shorter, "--out", str(short))
    finish("--out", str(short), "--resume", "--steps", "24000")
    assert_same_run(short, reference)
    config = json.loads((short / "config.json").read_text())
    assert config["config"]["steps"] == 24_000
    assert len(config["resumed"]) == 1
    assert not long.exists()


def test_run_folder_is_complete(reference):
    """Everything that a run promises to write."""
    config = json.loads((reference / "config.json").read_text())
    assert config["config"]["a2c"]["num_envs"] == 4
    assert config["versions"]["jax"] and config["python"] and config["device"]["count"]
    with (reference / "eval.csv").open() as lines:
        assert next(csv.reader(lines)) == (
            "seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean".split(",")
        )
    first, last = rows(reference / "eval.csv")[0], rows(reference / "eval.csv")[-1]
    assert (first["env_frames"], last["env_frames"]) == ("0", "24064")
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
