"""A run from pixels on the command line: its videos, evaluation and profile."""

import dataclasses
import json
import re
import shlex
import shutil

import numpy as np
import pytest

from experiments.figures import behaviours, coverage, replayed
from re3_jax.commands import evaluate, profile, train
from re3_jax.envs.host import renderer
from re3_jax.runs import machine
from re3_jax.runs.errors import UsageError
from tests.dm_control_suite import load, to_control
from tests.resume.compare import rows

pytest.importorskip("dm_control")
imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")

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
AGENT_STEPS = 50
"""Of an episode."""


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
    words = [*OPTIONS, "--steps", "1000", "--video", "--evaluation.episodes", "1"]
    # One kind of update compiles in less time than two.
    words += ["--sac.actor-every", "1", "--sac.target-every", "1"]
    assert train.main([*words, "--out", str(folder)]) == 0
    return folder


def frames_of_mp4(path) -> int:
    assert path.read_bytes()[4:8] == b"ftyp"
    number, _ = imageio_ffmpeg.count_frames_and_secs(path)
    return number


def test_run_names_its_renderer_and_leaves_a_video(run):
    assert json.loads((run / "summary.json").read_text())["renderer"] == "warp"
    assert json.loads((run / "config.json").read_text())["config"]["dmc"]["renderer"] == "warp"
    assert frames_of_mp4(run / "eval.mp4") == AGENT_STEPS


def test_the_true_states_are_those_of_dm_control_under_the_runs_actions(run):
    (played,) = replayed.read(run)
    assert played.seed == 1 and list(played.starts) == [0, 50]
    env, expected = load("cartpole_balance", 1), []
    time_step = env.reset()
    for action in played.actions:
        expected.append(np.concatenate([np.ravel(x) for x in time_step.observation.values()]))
        for _ in range(20):
            time_step = env.step(to_control(env, action))
    np.testing.assert_array_equal(replayed.states(played), expected)
    assert len(np.unique(expected, axis=0)) == 50


def test_another_history_is_refused(run):
    (played,) = replayed.read(run)
    for other in (played._replace(seed=2), played._replace(actions=played.actions[:-1])):
        with pytest.raises(UsageError, match="does not arrive at the state .* train it again"):
            replayed.states(other)


def test_coverage_of_a_run_that_is_too_short_is_refused(run, capsys, tmp_path):
    assert coverage.main([str(run), "--out", str(tmp_path)]) == 2
    assert f"{run} has only 50 states: train it until it has 512" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("group", "changed"),
    [("dmc", {"engine": "envpool", "renderer": "gl"}), ("sac", {"num_envs": 2})],
)
def test_runs_that_cannot_be_simulated_again_are_refused(run, monkeypatch, group, changed):
    stored = replayed.run_folder.stored_config(run, "")
    other = dataclasses.replace(getattr(stored, group), **changed)
    changed_run = dataclasses.replace(stored, **{group: other})
    monkeypatch.setattr(replayed.run_folder, "stored_config", lambda *_: changed_run)
    with pytest.raises(UsageError, match="cannot be simulated again: only one lane of dm_control"):
        replayed.read(run)


def test_a_replay_that_lost_actions_is_refused(run, monkeypatch):
    stored = replayed.run_folder.stored_config(run, "")
    small = dataclasses.replace(stored.sac, replay_capacity=40)
    short = dataclasses.replace(stored, sac=small)
    monkeypatch.setattr(replayed.run_folder, "stored_config", lambda *_: short)
    with pytest.raises(UsageError, match="40 of its 50 actions.*at most 800 env frames"):
        replayed.read(run)


def test_an_unreadable_checkpoint_is_refused_with_its_folder(run, monkeypatch):
    def damaged(store, names):
        raise ValueError("its checkpoint 2 is damaged")

    monkeypatch.setattr(replayed.CheckpointStore, "read_parts", damaged)
    with pytest.raises(UsageError, match=rf"{run} cannot be read: .*; train it again"):
        replayed.read(run)


@pytest.mark.slow
def test_the_last_episode_is_drawn_from_its_beginning(run, monkeypatch):
    """Against frames drawn from a lane that begins the same episode."""
    monkeypatch.setattr(behaviours, "SIDE", 32)
    (played,) = replayed.read(run)
    frames = behaviours.last_episode(played)
    assert frames.shape == (50, 32, 32, 3)
    lane = replayed.dmc.Lane(played.task_id, played.config)
    lane.begin(1)
    screen = renderer.make("warp", [lane], 32)
    np.testing.assert_array_equal(frames[0], screen.draw([0])[0])
    assert len(np.unique(frames, axis=0)) > 40


@pytest.mark.slow
def test_evaluation_of_the_checkpoint_equals_the_runs_own(run, capsys, tmp_path):
    words = ["--run", str(run), "--episodes", "1", "--video", str(tmp_path / "one.mp4")]
    words += ["--strip", str(tmp_path / "strip.png"), "--every", "5"]
    assert evaluate.main(words) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed)
    assert found["env_frames"] == 1000
    assert 0 < found["seeds"]["1"]["return_mean"] < 1000
    last = rows(run / "eval.csv")[-1]
    assert (last["env_frames"], float(last["length_mean"])) == ("1000", AGENT_STEPS)
    for name, value in found["seeds"]["1"].items():
        assert np.float32(value) == np.float32(last[name]), name
    assert frames_of_mp4(tmp_path / "one.mp4") == AGENT_STEPS
    assert (tmp_path / "strip.png").read_bytes().startswith(b"\x89PNG")
    # What was played is not lost with a picture that cannot be written.
    words[words.index(str(tmp_path / "strip.png"))] = str(tmp_path / "missing" / "strip.png")
    assert evaluate.main(words) == 2
    assert capsys.readouterr().out == printed


@pytest.mark.slow
def test_a_finished_run_without_its_video_says_how_to_make_it(run, capsys, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "eval.mp4").unlink()
    assert train.main(["--out", str(folder), "--resume"]) == 0
    said = capsys.readouterr().out
    (words,) = re.findall("none was written; to make one: .* -m (.*)", said)
    assert shlex.split(words)[1:] == ["--run", str(folder), "--video", str(folder / "eval.mp4")]
    assert evaluate.main(shlex.split(words)[1:]) == 0
    assert frames_of_mp4(folder / "eval.mp4") == AGENT_STEPS


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
