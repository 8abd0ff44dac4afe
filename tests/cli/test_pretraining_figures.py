"""The figures of pre-training: what they train, measure and write, from made-up states."""

import csv
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from scipy import stats
from sklearn.neighbors import NearestNeighbors

from experiments.figures import behaviours, fine_tuning, pretraining, replayed, visited_entropy
from experiments.figures.replayed import Played
from experiments.figures.runs import Runs, first_run
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.learner import make_learner
from re3_jax.envs.host import dmc
from re3_jax.envs.host.config import DMCConfig
from re3_jax.intrinsic.base import none
from re3_jax.runs import video
from re3_jax.runs.curves import Curve
from re3_jax.runs.validate import INT32_MAX
from tests.cli.written_runs import finish


def read(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


@pytest.fixture
def asked(monkeypatch):
    """The requested runs, in order; each ends with its seed as its return."""
    asked = []

    def ensure(runs, run):
        asked.append(run)
        if run.init:
            write(runs, first_run(run))
        return write(runs, run)

    def write(runs, run):
        return finish(runs, run, {0: run.seed, run.steps: run.seed})

    monkeypatch.setattr(Runs, "ensure", ensure)
    return asked


def words(tmp_path, *more):
    return [*more, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]


def made_up(folder: Path, seed: int, steps: int = 1200, starts=(0, 4, 8)) -> Played:
    actions = np.zeros((steps, 1), np.float32)
    config = DMCConfig(action_repeat=4)
    return Played(folder, "hopper_hop", config, seed, actions, np.array(starts), {})


def test_entropy_is_that_of_the_states_so_far():
    """Uniform on [0, 1] for the first half, then on [1, 3]: the closed forms."""
    random = np.random.default_rng(0)
    states = np.concatenate([random.uniform(0, 1, (4000, 1)), random.uniform(1, 3, (4000, 1))])
    found = visited_entropy.entropies(states, np.array([4000, 8000]), seed=0)
    # Deviations of estimates from 10,000 states, with psi'(3) = 0.39 and log densities of
    # variance 0.12; both ends of the support hide neighbours of 3 / 512 of the states.
    np.testing.assert_allclose(found, [0.0, 0.5 * np.log(2) + 0.5 * np.log(4)], atol=0.05)


def test_entropy_of_a_gaussian_by_scikit_learns_neighbours():
    """One point, with all states as its minibatch: the order of states does not matter."""
    dim, count = 4, visited_entropy.MINIBATCH
    states = np.random.default_rng(1).normal(size=(count, dim))
    (found,) = visited_entropy.entropies(states, np.array([count]), seed=3)
    search = NearestNeighbors(n_neighbors=visited_entropy.K).fit(states)
    log_volume = dim * np.log(search.kneighbors()[0][:, -1]) + np.log(np.pi**2 / 2)
    # log((N / k) volume) + log k - digamma(k), with digamma(3) = 3/2 - Euler's constant.
    expected = np.mean(log_volume) + np.log(count) - (1.5 - np.euler_gamma)
    assert found == pytest.approx(expected, abs=1e-4)
    assert found == pytest.approx(stats.multivariate_normal(np.zeros(dim)).entropy(), abs=0.3)


def test_differences_are_between_the_same_seeds():
    def measured(seeds, values):
        returns = np.array(values, float)[:, None]
        return visited_entropy.Measured(seeds, Curve("", np.array([4]), returns))

    one, other = measured([1, 2, 4], [10, 20, 40]), measured([4, 1, 3], [7, 5, 6])
    np.testing.assert_array_equal(visited_entropy.above(one, other).returns, [[10 - 5], [40 - 7]])
    assert visited_entropy.above(one, measured([3], [6])) is None


def test_frames_beyond_the_figures_do_not_count(monkeypatch, tmp_path):
    """A run of random actions may have been extended for a longer figure."""
    normal = np.random.default_rng(0).normal(size=(2000, 2))
    states = np.concatenate([normal, 1000 * normal])
    monkeypatch.setattr(replayed, "states", lambda one, _: states[: len(one.actions)])
    found = [
        visited_entropy.measure("", [made_up(tmp_path, 1, steps)], 8000).curve
        for steps in (2000, 4000)
    ]
    np.testing.assert_array_equal(found[0].returns, found[1].returns)
    assert list(found[1].env_frames) == list(found[0].env_frames)


def test_all_rows_of_a_seed_are_trained_before_the_next(asked, monkeypatch, tmp_path):
    monkeypatch.setattr(replayed, "read", lambda folder: [made_up(folder, 1)])
    monkeypatch.setattr(replayed, "states", lambda one, velocity: np.zeros((1200, 3)))
    monkeypatch.setattr(
        visited_entropy, "entropies", lambda states, steps, seed: np.zeros(len(steps))
    )
    more = ["--tasks", "hopper_hop", "walker_run_sparse", "--rows", "re3", "contrastive", "random"]
    assert pretraining.main(words(tmp_path, *more, "--frames", "4800", "--seeds", "2")) == 0
    assert [(run.seed, run.task, run.bonus) for run in asked] == [
        (seed, task, bonus)
        for seed in (1, 2)
        for task in ("hopper_hop", "walker_run_sparse")
        for bonus in ("re3", "contrastive", "none")
    ]
    assert {(run.agent, run.preset, run.seeds, run.steps) for run in asked} == {
        ("rad", "small", 1, 4800)
    }
    assert [dict(run.changes) for run in asked[:3]] == [
        {"pretrain": "4800"},
        {"pretrain": "4800", "learned.neighbours": "minibatch"},
        {"sac.initial_agent_steps": str(INT32_MAX)},
    ]


def test_a_run_of_random_actions_never_learns():
    config = SACConfig(initial_agent_steps=INT32_MAX)
    learner = make_learner(config, dmc.spec("hopper_hop", DMCConfig()), none())
    assert learner.random_agent_steps == INT32_MAX
    assert not learner.updates_due(INT32_MAX - 2, INT32_MAX - 1)


def test_the_panel_and_its_tables(asked, monkeypatch, tmp_path):
    """Ten times as wide in each of three dimensions is 3 log 10 nats more."""
    monkeypatch.setattr(
        replayed, "read", lambda folder: [made_up(folder, int("seed_2" in str(folder)) + 1)]
    )

    def states(one, velocity):
        wide = 10.0 if "-re3-" in one.folder.name else 1.0
        found = wide * np.random.default_rng(one.seed).normal(size=(1200, 3))
        return found if velocity else found[:, :2]

    monkeypatch.setattr(replayed, "states", states)
    more = ["--tasks", "hopper_hop", "--rows", "re3", "random", "--frames", "4800", "--seeds", "2"]
    assert pretraining.main(words(tmp_path, *more)) == 0
    points = read(tmp_path / "out" / "entropy.csv")
    cells = {(row["label"], row["seed"], int(row["env_frames"])): row for row in points}
    frames = sorted({frame for _, _, frame in cells})
    assert len(cells) == len(points) == 4 * len(frames)
    # The first point has a minibatch, the last is the end of the run.
    assert frames[0] / 4 >= visited_entropy.MINIBATCH > frames[0] / 4 - 1200 / 20
    assert frames[-1] == 4800
    re3, random = read(tmp_path / "out" / "table.csv")
    last = [float(cells["RE3", seed, 4800]["state_entropy"]) for seed in "12"]
    half = stats.t.ppf(0.975, 1) * stats.sem(last)
    interval = [float(re3[f"state_entropy{end}"]) for end in ("", "_low", "_high")]
    assert interval == pytest.approx([np.mean(last) + x for x in (0, -half, half)], rel=1e-4)
    # The same for both seeds.
    interval = [float(re3[f"above_random{end}"]) for end in ("", "_low", "_high")]
    assert interval == pytest.approx(3 * [3 * np.log(10)], abs=1e-3)
    assert (re3["seeds"], random["above_random"]) == ("2", "")
    assert pretraining.main(words(tmp_path, *more, "--poses")) == 0
    re3, _ = read(tmp_path / "out" / "table.csv")
    assert float(re3["above_random"]) == pytest.approx(2 * np.log(10), abs=1e-3)
    assert (tmp_path / "out" / "entropy.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("figure", "frames", "sentence"),
    [
        (pretraining, "2047", "too few states: give at least 2048"),
        (
            pretraining,
            "400001",
            "does not keep all actions of --frames 400001: give at most 400000",
        ),
        (behaviours, "400001", "does not keep all actions of --frames 400001: give at most 400000"),
    ],
)
def test_runs_that_cannot_be_measured_are_not_trained(
    asked, tmp_path, capsys, figure, frames, sentence
):
    more = ["--tasks", "hopper_hop", "--rows", "random", "--frames", frames]
    assert figure.main(words(tmp_path, *more)) == 2
    assert sentence in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize("task", ["hopper_hop", "walker_run_sparse", "cheetah_run_sparse"])
def test_a_pose_is_what_dm_control_shows_without_velocities(task):
    lane = dmc.Lane(task, DMCConfig())
    lane.begin(3)
    for _ in range(20):
        lane.advance(np.full(lane.physics.model.nu, 0.3, np.float32))
    before, pose = lane.proprioception(), lane.proprioception(velocity=False)
    lane.physics.data.qvel[:] += 1.0
    after = lane.proprioception()
    np.testing.assert_array_equal(pose, lane.proprioception(velocity=False))
    assert pose.size == before.size - lane.physics.model.nv == np.sum(before == after)


def test_a_pose_that_cannot_be_told_from_velocities_is_refused():
    lane = dmc.Lane("quadruped_run", DMCConfig())
    lane.begin(3)
    with pytest.raises(ValueError, match="of quadruped has no part called velocity"):
        lane.proprioception(velocity=False)
    humanoid = dmc.Lane("humanoid_run", DMCConfig())
    humanoid.begin(3)
    joints, centre = humanoid.physics.model.nv, 3
    assert humanoid.proprioception().size == (
        humanoid.proprioception(velocity=False).size + joints + centre
    )


def test_a_strip_shows_an_episode_from_beginning_to_end():
    shades = np.arange(0, 245, 5, np.uint8)
    frames = np.broadcast_to(shades[:, None, None, None], (49, 8, 8, 3))
    figure = behaviours.draw({"a": frames, "b": frames[::-1]})
    shown = [np.asarray(axes.images[0].get_array())[0, 0, 0] for axes in figure.axes]
    strip, reverse = np.split(np.array(shown, int), 2)
    assert strip[0] == 0 and strip[-1] == 240
    assert set(np.diff(strip)) <= {20, 25}
    assert reverse[0] == 240 and reverse[-1] == 0


def test_the_picture_of_strips_has_few_colours(asked, monkeypatch, tmp_path):
    shades = np.random.default_rng(0).integers(0, 255, (20, 8, 8, 3), np.uint8)
    monkeypatch.setattr(replayed, "read", lambda folder: [made_up(folder, 1)])
    monkeypatch.setattr(behaviours, "last_episode", lambda one: shades)
    monkeypatch.setattr(video, "write", lambda path, frames: None)
    assert behaviours.main(words(tmp_path, "--tasks", "hopper_hop", "--rows", "random")) == 0
    with Image.open(tmp_path / "out" / "strips.png") as drawn:
        assert (drawn.mode, drawn.size) == ("P", (1260, 130))


def test_behaviours_are_of_the_runs_of_pretraining(asked, monkeypatch, tmp_path):
    monkeypatch.setattr(replayed, "read", lambda folder: [made_up(folder, 1)])
    episode = np.zeros((20, 16, 16, 3), np.uint8)
    monkeypatch.setattr(behaviours, "last_episode", lambda played: episode)
    more = ["--tasks", "hopper_hop", "--rows", "re3", "random", "--frames", "4800"]
    assert behaviours.main(words(tmp_path, *more)) == 0
    assert [(run.bonus, run.seed) for run in asked] == [("re3", 1), ("none", 1)]
    found = {path.name for path in (tmp_path / "out").iterdir()}
    assert found == {"strips.png", "hopper_hop-re3.mp4", "hopper_hop-random.mp4"}


def test_pictures_of_exploring_say_what_is_missing(monkeypatch, tmp_path):
    said = []
    monkeypatch.setattr(Figure, "suptitle", lambda figure, title: said.append(title))
    monkeypatch.setattr(replayed, "read", lambda folder: [made_up(folder, 1)])
    states = np.random.default_rng(0).normal(size=(1200, 2))
    monkeypatch.setattr(replayed, "states", lambda one, _: states)
    monkeypatch.setattr(behaviours, "last_episode", lambda one: np.zeros((20, 16, 16, 3), np.uint8))
    run = pretraining.METHODS["re3"].run("hopper_hop", "small", 4800)
    finish(Runs(tmp_path / "runs"), run, {0: 0.0, 4800: 0.0})
    more = ["--tasks", "hopper_hop", "--rows", "re3", "random", "--frames", "4800", "--finished"]
    for figure in (pretraining, behaviours):
        assert figure.main(words(tmp_path, *more, "--seeds", "2")) == 0
    assert said == 2 * ["3 of 4 runs are still missing"]


def test_a_run_without_a_whole_episode_has_no_strip(tmp_path):
    with pytest.raises(behaviours.UsageError, match="no whole episode: give more --frames"):
        behaviours.last_episode(made_up(tmp_path, 1, starts=(0,)))


def test_fine_tuning_counts_the_frames_of_pre_training(asked, tmp_path):
    more = ["--tasks", "hopper_stand", "--frames", "1000", "--steps", "5000", "--seeds", "2"]
    assert fine_tuning.main(words(tmp_path, *more)) == 0
    assert [(run.seed, run.bonus, run.steps) for run in asked] == [
        (seed, bonus, steps)
        for seed in (1, 2)
        for bonus, steps in (("none", 5000), ("re3", 5000), ("re3", 4000), ("contrastive", 4000))
    ]
    before = [run.init for run in asked[:4]]
    assert before[:2] == [None, None]
    assert before[2] == pretraining.METHODS["re3"].run("hopper_hop", "small", 1000)
    assert before[3] == pretraining.METHODS["contrastive"].run("hopper_hop", "small", 1000)
    assert dict(asked[3].changes) == {"learned.neighbours": "minibatch"}
    table = read(tmp_path / "out" / "table.csv")
    assert [(row["label"], row["env_frames"], row["better_than_none"]) for row in table] == [
        ("RAD", "5000", ""),
        ("RAD + RE3", "5000", "0.5"),
        ("RAD + RE3 + PT", "5000", "0.5"),
        ("RAD + SE w/ Contrastive + PT", "5000", "0.5"),
    ]
    assert [row["pretraining_frames"] for row in table] == ["0", "0", "1000", "1000"]
    # Heights are 1 and 2; after pre-training, whose fifth of the frames has height 0, 0.8 and 1.6.
    above_ours = [row["larger_area_than_re3_pt"] for row in table]
    assert above_ours == ["0.75", "0.75", "", "0.5"]
    assert len(list((tmp_path / "out").glob("hopper_stand-*.csv"))) == 8


def test_every_row_of_fine_tuning_has_the_same_frames(monkeypatch, tmp_path):
    """A run may have gone on for another figure."""

    def ensure(runs, run):
        if run.init:
            finish(runs, run.init, {0: 0.0, run.init.steps: 0.0})
        more = {20_000: 9.0} if run.bonus == "none" else {}
        return finish(runs, run, {0: 0.0, run.steps: 1.0, **more})

    monkeypatch.setattr(Runs, "ensure", ensure)
    more = ["--tasks", "hopper_stand", "--frames", "1000", "--steps", "5000", "--seeds", "1"]
    assert fine_tuning.main(words(tmp_path, *more)) == 0
    table = read(tmp_path / "out" / "table.csv")
    assert {(row["env_frames"], row["final_return_mean"]) for row in table} == {("5000", "1")}


def test_no_pre_training_at_all_is_refused_before_a_run_begins(tmp_path, capsys):
    assert fine_tuning.main(words(tmp_path, "--frames", "0")) == 2
    assert "--frames" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_pre_training_longer_than_the_figure_is_refused(tmp_path, capsys):
    assert fine_tuning.main(words(tmp_path, "--frames", "5000", "--steps", "5000")) == 2
    assert "leave nothing of --steps 5000" in capsys.readouterr().err
