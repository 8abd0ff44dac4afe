"""The figure of pre-training on MiniGrid: what it trains, reads and writes, from made-up runs."""

import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from experiments.figures import minigrid_pretraining
from experiments.figures.minigrid_pretraining import EVERY, FRAMES, METHODS
from experiments.figures.runs import Runs
from re3_jax.runs import build
from re3_jax.runs.curves import Curve
from re3_jax.runs.validate import INT32_MAX
from tests.cli.written_runs import finish

HEIGHTS = {"re3": 2.0, "contrastive": 1.0, "none": 0.5}


@pytest.fixture
def asked(monkeypatch):
    """The requested runs; the entropy of a row is its height, and a hundredth for each seed."""
    asked = []

    def ensure(runs, run):
        asked.append(run)
        folder = finish(runs, run, {0: 0.0, run.steps: 0.0})
        with (folder / "train.csv").open("w") as out:
            out.write("seed,env_frames,wall_seconds,state_entropy\n")
            for frames in range(EVERY // 2, run.steps + EVERY + 1, EVERY // 2):
                for seed in range(run.seed, run.seed + run.seeds):
                    at_end = HEIGHTS[run.bonus] + seed / 100
                    out.write(f"{seed},{frames},1.0,{at_end * frames / run.steps}\n")
        return folder

    monkeypatch.setattr(Runs, "ensure", ensure)
    return asked


def words(tmp_path, *more):
    return [*more, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]


def read(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


def learner_of(run, folder):
    config = Runs(folder).config(run)
    return build.make_learner(config, build.task_spec(config))


def test_points_and_table_are_those_of_the_runs(asked, tmp_path):
    given = words(tmp_path, "--frames", "12800", "--seeds", "3")
    assert minigrid_pretraining.main(given) == 0
    assert {(run.task, run.seed, run.seeds, run.steps) for run in asked} == {
        ("empty_16x16", 11, 3, 12_800)
    }
    assert [run.changes.get("pretrain") for run in asked] == ["12800"] * 3 + [None]
    points = read(tmp_path / "out" / "entropy.csv")
    # Neither halves of an interval nor what a run did beyond the figure.
    assert {int(row["env_frames"]) for row in points} == {6_400, 12_800}
    assert len(points) == len(METHODS) * 3 * 2
    re3, _, apt, random = read(tmp_path / "out" / "table.csv")
    last = [2.11, 2.12, 2.13]
    half = stats.t.ppf(0.975, 2) * stats.sem(last)
    interval = [float(re3[f"state_entropy{end}"]) for end in ("", "_low", "_high")]
    assert interval == pytest.approx([np.mean(last) + x for x in (0, -half, half)], rel=1e-4)
    assert (re3["seeds"], re3["env_frames"], re3["better_than_random"]) == ("3", "12800", "1")
    assert (apt["label"], float(apt["state_entropy"])) == ("APT", pytest.approx(1.12))
    assert (random["label"], random["better_than_random"]) == ("random actions", "")
    assert (tmp_path / "out" / "entropy.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", METHODS)
def test_a_row_is_a_run_with_points_where_the_figure_reads_them(name, tmp_path):
    run = METHODS[name].run(FRAMES)
    config = Runs(tmp_path).config(run)
    learner_of(run, tmp_path)
    chunk = config.frames_per_update(1) * config.choose_chunk_updates(1)
    assert EVERY % chunk == 0 and FRAMES % EVERY == 0
    assert config.pretrain == (None if name == "random" else FRAMES)
    assert config.of_agent.num_envs == 16
    if config.bonus == "contrastive":
        assert config.learned.neighbours == ("minibatch" if name == "apt" else "ring")


def test_random_actions_know_nothing_of_the_agent(tmp_path):
    learner = learner_of(METHODS["random"].run(FRAMES), tmp_path)
    assert not learner.updates_due(INT32_MAX - 32, INT32_MAX - 16)
    frame = jnp.zeros((learner.num_lanes, *learner.spec.frame_shape), jnp.uint8)
    init, act = jax.jit(learner.init), jax.jit(learner.acting.act, static_argnums=3)
    states = [init(jax.random.key(seed), frame) for seed in (0, 1)]
    keys = jax.random.split(jax.random.key(2), 100)
    one, other = (
        np.stack([act(state.agent, state.memory, key, True)[1] for key in keys]) for state in states
    )
    np.testing.assert_array_equal(one, other)
    assert stats.chisquare(np.bincount(one.ravel(), minlength=7)).pvalue > 0.001


def test_the_line_is_the_entropy_of_the_uniform_distribution():
    """Over four directions in each cell within the walls but the goal."""
    curve = Curve("RE3", np.array([EVERY, 2 * EVERY]), np.array([[1.0, 2.0], [1.5, 2.5]]))
    (axes,) = minigrid_pretraining._draw([curve]).axes
    line = axes.get_lines()[-1]
    assert line.get_ydata()[0] == pytest.approx(stats.entropy(np.ones(4 * (14**2 - 1))))
    assert axes.get_ylim()[1] > line.get_ydata()[0]
    assert axes.get_legend().get_texts()[-1].get_text() == "uniform over 780 states"


def test_fewer_frames_than_a_point_are_refused(asked, tmp_path, capsys):
    assert minigrid_pretraining.main(words(tmp_path, "--frames", "6399")) == 2
    assert "--frames 6399 are no point: give at least 6400" in capsys.readouterr().err
    assert asked == []
