"""The figure of visited states: what it measures and writes, from made-up states."""

import csv

import numpy as np
import pytest
from scipy import stats

from experiments.figures import coverage, replayed
from experiments.figures.replayed import Played
from re3_jax.envs.host.config import DMCConfig
from tests.cli.written_runs import write_run

WIDTHS = {"none": 1.0, "re3": 10.0}
LABELS = "RAD", "RAD + RE3"
LENGTHS = {"cheetah": 1000, "hopper": 700}


def made(folder, seed=1, steps=1200, repeat=4):
    actions = np.zeros((steps, 1), np.float32)
    return Played(folder, "hopper_hop", DMCConfig(action_repeat=repeat), seed, actions, 0, {})


@pytest.fixture
def made_up(monkeypatch):
    """Runs named TASK-BONUS-SEED: normal in three dimensions, RE3's ten times as wide.

    One of the three is a velocity.
    """

    def read(folder):
        task, _, seed = folder.name.split("-")
        return [made(folder, int(seed), LENGTHS[task] + 100 * int(seed))]

    def states(one, velocity):
        width = WIDTHS[one.folder.name.split("-")[1]]
        drawn = np.random.default_rng(one.seed).normal(size=(len(one.actions), 3))
        return width * (drawn if velocity else drawn[:, :2])

    monkeypatch.setattr(replayed, "read", read)
    monkeypatch.setattr(replayed, "states", states)


def run(tmp_path, task, bonus, seed, agent="rad", env="dmc:hopper_hop"):
    folder = tmp_path / f"{task}-{bonus}-{seed}"
    return write_run(folder, bonus, (5.0,), first=seed, agent=agent, env=env, preset="small")


def read(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


def test_rows_are_measured_over_the_frames_that_all_their_runs_have(made_up, tmp_path):
    """Ten times as wide in each of three dimensions is 3 log 10 nats more."""
    folders = [
        run(tmp_path, task, bonus, seed, env=f"dmc:{env}")
        for task, env in (("cheetah", "cheetah_run_sparse"), ("hopper", "hopper_hop"))
        for bonus in ("none", "re3")
        for seed in (1, 2)
    ]
    assert coverage.main([*map(str, folders), "--out", str(tmp_path / "out")]) == 0
    points, lines = read(tmp_path / "out" / "entropy.csv"), read(tmp_path / "out" / "table.csv")
    frames = {
        task: {int(row["env_frames"]) for row in points if row["task"] == task}
        for task in ("cheetah_run_sparse", "hopper_hop")
    }
    # The shorter run of each task has 1,100 and 800 states, each of four frames.
    assert [max(of_task) for of_task in frames.values()] == [4400, 3200]
    assert min(frames["hopper_hop"]) >= 4 * 512
    assert [(row["task"], row["label"], row["seeds"]) for row in lines] == [
        (task, label, "2") for task in ("cheetah_run_sparse", "hopper_hop") for label in LABELS
    ]
    for first, second in (lines[:2], lines[2:]):
        assert {first[f"{name}_first"] for name in ("above", "better_than")} == {""}
        assert float(second["above_first"]) == pytest.approx(3 * np.log(10), abs=1e-3)
        assert float(second["better_than_first"]) == 1
        # Two against two: the split that is found, and its mirror image, of six.
        assert float(second["better_than_first_p"]) == pytest.approx(2 / 6, rel=1e-4)
    last = [
        float(row["state_entropy"])
        for row in points
        if (row["task"], row["label"], row["env_frames"]) == ("hopper_hop", "RAD", "3200")
    ]
    half = stats.t.ppf(0.975, 1) * stats.sem(last)
    interval = [float(lines[2][f"state_entropy{end}"]) for end in ("", "_low", "_high")]
    assert interval == pytest.approx([np.mean(last) + x for x in (0, -half, half)], rel=1e-4)
    assert (tmp_path / "out" / "entropy.png").read_bytes().startswith(b"\x89PNG")


def test_poses_are_measured_without_velocities(made_up, tmp_path):
    folders = [run(tmp_path, "hopper", bonus, 1) for bonus in ("none", "re3")]
    argv = [*map(str, folders), "--poses", "--out", str(tmp_path / "out")]
    assert coverage.main(argv) == 0
    line = read(tmp_path / "out" / "table.csv")[1]
    assert float(line["above_first"]) == pytest.approx(2 * np.log(10), abs=1e-3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"agent": "dreamer"}, "is of dreamer on hopper_hop: give runs of rad or drq on DeepMind"),
        ({"env": "brax:ant"}, "is of rad on brax:ant: give runs of rad or drq on DeepMind"),
    ],
)
def test_other_runs_are_refused(made_up, tmp_path, capsys, options, sentence):
    folder = run(tmp_path, "hopper", "re3", 1, **options)
    assert coverage.main([str(folder), "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_another_action_repeat_is_refused(made_up, monkeypatch, tmp_path, capsys):
    """Rows would have other points, and as many frames would be fewer states."""
    folders = [run(tmp_path, "hopper", bonus, 1) for bonus in ("none", "re3")]
    monkeypatch.setattr(
        replayed, "read", lambda folder: [made(folder, repeat=4 if folder == folders[0] else 8)]
    )
    assert coverage.main([*map(str, folders), "--out", str(tmp_path / "out")]) == 2
    assert "the runs of hopper_hop differ in --dmc.action-repeat" in capsys.readouterr().err


def test_too_few_states_are_refused(made_up, monkeypatch, tmp_path, capsys):
    folders = [run(tmp_path, "hopper", bonus, 1) for bonus in ("none", "re3")]
    monkeypatch.setattr(
        replayed,
        "read",
        lambda folder: [made(folder, steps=511 if folder == folders[1] else 1200)],
    )
    assert coverage.main([*map(str, folders), "--out", str(tmp_path / "out")]) == 2
    assert f"{folders[1]} has only 511 states: train it until it has 512" in capsys.readouterr().err
