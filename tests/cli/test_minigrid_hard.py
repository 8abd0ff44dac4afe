"""The figure of PPO's bonuses on hard tasks, its search of weights, and what it writes."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from experiments.figures import minigrid_hard, minigrid_hard_betas, minigrid_hard_more
from experiments.figures.minigrid_betas import halved, searched
from experiments.figures.minigrid_hard import BUDGETS, LABELS, TASKS
from experiments.figures.runs import Runs
from re3_jax.envs.registry import make
from re3_jax.runs import curves
from re3_jax.runs.config import flatten
from re3_jax.runs.curves import Curve
from re3_jax.runs.option_names import option_with
from re3_jax.runs.options import parse
from re3_jax.runs.presets import ppo
from re3_jax.runs.resolve import resolve
from tests.cli.written_runs import finish


@pytest.fixture
def asked(monkeypatch):
    """The requested runs; 0.01 is the best weight, and a bonus is better than none."""
    asked = []

    def ensure(runs, run):
        asked.append(run)
        betas = [float(value) for name, value in run.changes.items() if name.endswith(".beta")]
        height = sum(1 - abs(np.log10(beta) + 1.9) / 10 for beta in betas) or 0.5
        height = 0.1 if run.bonus == "none" else height
        return finish(runs, run, {0: 0.0, run.steps // 2: 0.9 * height, run.steps: height})

    monkeypatch.setattr(Runs, "ensure", ensure)
    return asked


def words(tmp_path, *more):
    return ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), *more]


def test_every_cell_has_the_same_settings_and_fresh_seeds(asked, tmp_path):
    assert minigrid_hard.main(words(tmp_path, "--tasks", "doorkey_8x8", "multiroom_n6")) == 0
    assert len(asked) == 2 * len(LABELS)
    assert {run.steps for run in asked if run.task == "doorkey_8x8"} == {BUDGETS["doorkey_8x8"]}
    assert {(run.agent, run.seed, run.seeds) for run in asked} == {("ppo", 401, 10)}
    assert not any(name.endswith("beta") for run in asked for name in run.changes)
    with (tmp_path / "out" / "table.csv").open() as lines:
        table = {(row["task"], row["label"]): row for row in csv.DictReader(lines)}
    row = table["multiroom_n6", "PPO + RE3"]
    assert (row["seeds_to_0.8"], row["frames_to_0.8"]) == ("10", "512000")
    assert (row["train_seconds"], row["better_than_none"]) == ("80.0", "1")
    assert (row["better_than_re3"], table["multiroom_n6", "PPO"]["better_than_re3"]) == ("", "0")
    row = table["multiroom_n6", "PPO"]
    assert (row["seeds_to_0.8"], row["frames_to_0.8"]) == ("0", "")
    with (tmp_path / "out" / "tasks.csv").open() as lines:
        over_tasks = {row["label"]: row["final_return_iqm"] for row in csv.DictReader(lines)}
    assert over_tasks["PPO + RE3"] == "0.5"
    assert (tmp_path / "out" / "profiles.png").exists()


def test_seconds_are_of_the_frames_that_are_drawn(monkeypatch, tmp_path):
    def ensure(runs, run):
        more = {2 * run.steps: 1.0} if run.bonus == "re3" else {}
        return finish(runs, run, {0: 0.0, run.steps: 0.5, **more})

    monkeypatch.setattr(Runs, "ensure", ensure)
    more = ["--tasks", "multiroom_n6", "--rows", "none", "re3", "--steps", "204800"]
    assert minigrid_hard.main(words(tmp_path, *more)) == 0
    with (tmp_path / "out" / "table.csv").open() as lines:
        found = [(row["env_frames"], row["train_seconds"]) for row in csv.DictReader(lines)]
    assert found == [("204800", "80.0"), ("204800", "")]


def test_the_state_is_one_line_and_trains_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Runs, "ensure", None)
    run, runs = minigrid_hard.run("doorkey_8x8", "re3", "recommended"), Runs(tmp_path / "runs")
    finish(runs, run, {0: 0.0, run.steps: 1.0})
    begun = runs.folder_of(run._replace(bonus="rnd"))
    begun.mkdir()
    (begun / "config.json").write_text("{}")
    asked_for = ["--tasks", "doorkey_8x8", "--rows", "none", "re3", "rnd", "--state"]
    assert minigrid_hard.main(words(tmp_path, *asked_for)) == 0
    # Two more cells of 100 seconds each.
    expected = "1 of 3 runs done, 1 begun, 1 waiting, about 0.1 hours to go\n"
    assert capsys.readouterr().out == expected
    finished = words(tmp_path, *asked_for[:-1], "--finished")
    assert minigrid_hard.main(finished) == 0


def test_frames_to_a_height():
    curve = Curve("", np.array([0, 10, 20]), np.array([[0.0, 0.8, 0.1], [0.0, 0.1, 0.2]]))
    assert minigrid_hard.frames_to(curve, 0.8).tolist() == [10, np.inf]
    assert minigrid_hard.best_return([curve]) == pytest.approx(0.45)


def test_a_row_that_lacks_a_task_has_no_mean_over_tasks(tmp_path):
    runs, tasks = Runs(tmp_path / "runs"), ("doorkey_8x8", "multiroom_n6")
    for task, name in ((tasks[0], "counts"), *((task, "re3") for task in tasks)):
        run = minigrid_hard.run(task, name, "recommended")
        finish(runs, run, {0: 0.0, run.steps: 1.0})
    assert minigrid_hard.main(words(tmp_path, "--tasks", *tasks, "--finished")) == 0
    with (tmp_path / "out" / "tasks.csv").open() as lines:
        assert [row["label"] for row in csv.DictReader(lines)] == ["PPO + RE3"]


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_few_enough_states_to_count(task):
    """A count for each state, seed and, of episodic counts, lane is kept."""
    assert 0 < make(resolve(task).env).spec.num_states < 100_000


@pytest.mark.parametrize("name", LABELS)
def test_options_of_every_row_are_options_of_a_run(name):
    run = minigrid_hard.run("doorkey_8x8", name, "recommended")
    given = ["--env", run.task, "--agent", "ppo", "--bonus", name]
    changes = dict(run.changes)
    if option := minigrid_hard.weight(name):
        changes[option] = "0.5"
    for each, value in changes.items():
        given += option_with(each, value).split()
    config = parse(given)
    assert option is None or flatten(config)[option] == 0.5
    # A twentieth of every budget is a whole number of updates.
    updates = config.frames_per_update(action_repeat=1) * minigrid_hard.EVALUATIONS
    assert {budget % updates for budget in BUDGETS.values()} == {0}


def test_the_search_keeps_the_best_three_and_skips_what_it_has(asked, tmp_path, capsys):
    asked_for = words(tmp_path, "--tasks", "doorkey_8x8", "--rows", "e3b", "--seeds", "2")
    assert minigrid_hard_betas.main(asked_for) == 0
    weights = [float(run.changes["e3b.beta"]) for run in asked]
    assert weights == [*minigrid_hard_betas.BETAS, 0.01, 0.005, 0.05]
    assert [run.steps for run in asked] == [327_680] * 9 + [655_360] * 3
    assert {(run.seeds, run.seed) for run in asked} == {(2, 301)}
    found = searched(tmp_path / "out" / "recommended.json")
    assert found["doorkey_8x8"]["e3b"]["beta"] == 0.01
    assert "1 of 1 cells done, 0 running, 0 left" in capsys.readouterr().out
    assert minigrid_hard_betas.main(asked_for) == 0
    assert len(asked) == 12


def test_further_rows_have_the_same_search_and_the_seeds_of_the_figure(asked, tmp_path):
    assert minigrid_hard_more.main(words(tmp_path)) == 0
    of_rise, of_rnd, of_figure = asked[:12], asked[12:24], asked[24:]
    for of_search in (of_rise, of_rnd):
        assert {(run.seeds, run.seed) for run in of_search} == {(5, 301)}
        assert [run.steps for run in of_search] == [327_680] * 9 + [655_360] * 3
    assert len({run.changes["ppo.intrinsic-coef"] for run in of_rnd}) == 9
    assert {(run.seeds, run.seed, run.steps) for run in of_figure} == {(10, 401, 655_360)}
    assert [run.bonus for run in of_figure] == ["none", "re3", "rnd", "rise", "rnd"]
    assert of_figure[3].changes["rise.beta"] == "0.01"
    with (tmp_path / "out" / "table.csv").open() as lines:
        table = {row["label"]: row for row in csv.DictReader(lines)}
    labels = ["PPO", "PPO + RE3", "PPO + RND", "PPO + RISE", "PPO + RND (its authors')"]
    assert [*table] == labels
    assert [table[label]["better_than_none"] for label in labels] == ["", "1", "1", "1", "1"]
    assert table["PPO + RND"]["better_than_rnd"] == ""


@pytest.mark.parametrize("name", minigrid_hard_more.ROWS)
def test_options_of_every_further_row_are_options_of_a_run(name, tmp_path):
    run, weight = minigrid_hard_more.run(name), minigrid_hard_more.ROWS[name].weight
    config = Runs(tmp_path).config(run._replace(changes={**run.changes, weight: "0.5"}))
    assert flatten(config)[weight.replace("-", "_")] == 0.5


def test_the_search_counts_the_frames_of_resumed_runs_once():
    # Nine weights for 10 of 20 evaluations and three for 10 more, of 32,768 frames each.
    assert minigrid_hard_betas.env_frames("doorkey_8x8", 3) == 120 * 32_768 * 3


@pytest.mark.parametrize(
    ("best", "more"),
    [
        (0.01, ()),
        # The neighbour of the best shows that it is the best.
        (5e-6, (1e-6, 5e-6, 1e-5, 5e-5)),
        (10.0, (5.0, 10.0, 50.0)),
        (0.0, (1e-7, 5e-7, 1e-6, 5e-6, 1e-5, 5e-5)),
    ],
)
def test_a_best_weight_at_an_end_is_looked_for_beyond_it(best, more, tmp_path):
    def score(beta):
        return -abs(np.log10(beta / max(best, 1e-9)))

    found = minigrid_hard_betas.widened(score, Runs(tmp_path))
    assert found == tuple(sorted({*minigrid_hard_betas.BETAS, *more}))


def test_equal_scores_add_no_weight(tmp_path):
    betas = minigrid_hard_betas.BETAS
    assert minigrid_hard_betas.widened(lambda beta: 0.0, Runs(tmp_path)) == betas


def test_where_no_weight_has_a_return_the_middle_one_is_taken(tmp_path):
    betas, asked = minigrid_hard_betas.BETAS, []

    def score(steps, beta):
        asked.append(beta)
        return 0.0

    best, report = halved(betas, [(5, 9), (10, 2)], score, Runs(tmp_path))
    assert (best, asked[9:]) == (0.01, [0.01, 0.005])
    assert [rung["equally_good"] for rung in report] == [9, 2]
    # A better one is taken all the same.
    assert halved(betas, [(5, 9)], lambda steps, beta: beta == 1.0, Runs(tmp_path))[0] == 1.0


@pytest.mark.parametrize("tasks", [1, 4])
def test_the_legend_is_within_the_picture(asked, monkeypatch, tmp_path, tasks):
    pictures = []
    monkeypatch.setattr(curves, "note_missing", lambda picture, *_: pictures.append(picture))
    assert minigrid_hard.main(words(tmp_path, "--tasks", *[*TASKS][:tasks])) == 0
    for picture in pictures:
        picture.draw_without_rendering()
        (legend,) = picture.legends
        extent = legend.get_window_extent()
        assert extent.x0 >= 0 and extent.x1 <= picture.bbox.width
    assert len(pictures) == 2


def test_nobody_reaches_a_share_of_nothing(monkeypatch, tmp_path):
    def ensure(runs, run):
        return finish(runs, run, {0: 0.0, run.steps: 0.02 * (run.bonus == "re3")})

    monkeypatch.setattr(Runs, "ensure", ensure)
    assert minigrid_hard.main(words(tmp_path, "--tasks", "doorkey_8x8", "--rows", "re3")) == 0
    with (tmp_path / "out" / "table.csv").open() as lines:
        (row,) = csv.DictReader(lines)
    assert (row["seeds_to_0.8"], row["frames_to_0.8"]) == ("", "")


def test_the_preset_has_the_weights_that_the_search_found():
    path = Path(__file__).parents[2] / "results" / "minigrid_hard_betas" / "recommended.json"
    found = searched(path)
    more = json.loads((path.parents[1] / "minigrid_hard_more" / "search.json").read_text())
    found["doorkey_8x8"]["rise"] = more["doorkey_8x8"]["rise"]
    weights = {minigrid_hard.weight(name) for name in found["doorkey_8x8"]}
    assert weights == ppo.SEARCHED["DoorKey-8x8"].keys()
    for task, of_task in found.items():
        for name, result in of_task.items():
            config = resolve(task, "ppo", bonus=name)
            assert flatten(config)[minigrid_hard.weight(name)] == result["beta"]
