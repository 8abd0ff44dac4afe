"""A run from pixels on the command line: its videos, evaluation and profile."""

import json
import re

import pytest

from experiments import evaluate, machine, profile, train

pytest.importorskip("dm_control")
pytest.importorskip("imageio_ffmpeg")

OPTIONS = (
    "--env",
    "cartpole_balance",
    "--preset",
    "debug",
    "--seeds",
    "1",
    "--dmc.renderer",
    "warp",
)


@pytest.fixture(scope="module", autouse=True)
def settings():
    """Changes that `main` makes to its process must not reach other tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("keep_compiled_programs", "use_cpu_devices"):
            patch.setattr(machine, name, lambda *_: None)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert train.main([*OPTIONS, "--steps", "1000", "--video", "--out", str(folder)]) == 0
    return folder


def is_mp4(path):
    return path.read_bytes()[4:8] == b"ftyp"


def test_run_names_its_renderer_and_leaves_a_video(run):
    assert json.loads((run / "summary.json").read_text())["renderer"] == "warp"
    assert json.loads((run / "config.json").read_text())["config"]["dmc"]["renderer"] == "warp"
    assert is_mp4(run / "eval.mp4")


@pytest.mark.slow
def test_evaluation_of_the_checkpoint_equals_the_runs_own(run, capsys, tmp_path):
    words = ["--run", str(run), "--episodes", "1", "--video", str(tmp_path / "one.mp4")]
    assert evaluate.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["env_frames"] == 1000
    assert 0 < found["seeds"]["1"]["return_mean"] < 1000
    assert found["seeds"]["1"]["length_mean"] == 50
    assert is_mp4(tmp_path / "one.mp4")


@pytest.mark.slow
def test_profile_times_each_part_and_writes_a_trace(capsys, tmp_path):
    assert profile.main([*OPTIONS, "--out", str(tmp_path / "profile")]) == 0
    said = capsys.readouterr().out
    rows = {line[:22].strip(): line[22:] for line in said.splitlines() if line[:22].strip()}
    parts = [float(rows[name].split()[0]) for name in ("act", "lanes", "update", "store")]
    assert all(value > 0 for value in parts)
    (together,) = re.findall(r"each alone, take ([\d.]+) ms", said)
    assert float(together) == pytest.approx(sum(parts), abs=0.01)
    assert "drawn by warp" in said
    assert list((tmp_path / "profile").rglob("*.trace.json.gz"))
