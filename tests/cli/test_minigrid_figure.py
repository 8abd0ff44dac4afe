"""The MiniGrid figure: seeds, pre-training, budgets, beta, and the search for beta."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.figures import minigrid, minigrid_betas
from experiments.figures.minigrid import TASKS, VARIANTS
from experiments.figures.runs import Runs, first_run
from re3_jax.runs import curves
from re3_jax.runs.errors import UsageError
from re3_jax.runs.option_names import option_with
from re3_jax.runs.options import parse
from tests.cli.written_runs import finish

TRAINED = 100_480
"""Env frames of a pre-training run, which ends after whole chunks."""


@pytest.fixture
def asked(monkeypatch):
    """The requested runs; each has an eval.csv with two rows per seed."""
    asked = []

    def ensure(runs, run):
        asked.append(run)
        folder = runs.folder_of(run)
        write_evaluations(folder, [(0, 0.0), (run.steps, height(run.changes))], run.seeds)
        if before := first_run(run):
            write_evaluations(runs.folder_of(before), [(0, 0.0), (TRAINED, 0.0)], run.seeds)
        return folder

    def height(options):
        # The best beta is in the middle of the nine, and after that among the larger ones.
        betas = [float(value) for name, value in options.items() if name.endswith(".beta")]
        return sum(1 - abs(np.log10(beta) + 2.3) / 10 for beta in betas)

    monkeypatch.setattr(Runs, "ensure", ensure)
    return asked


def write_evaluations(folder, points, seeds=1):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "eval.csv").open("w") as out:
        out.write("seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean\n")
        for frames, value in points:
            out.writelines(f"{seed},{frames},1.0,4,{value},0,9\n" for seed in range(seeds))


BUDGETS = {"empty_16x16": 400_000, "doorkey_6x6": 400_000, "doorkey_8x8": 2_400_000}


def drawn(tmp_path, *words):
    """The figure's table, of two seeds."""
    runs, out = tmp_path / "runs", tmp_path / "out"
    words = ["--seeds", "2", "--runs", str(runs), "--out", str(out), *words]
    assert minigrid.main(words) == 0
    with (out / "recommended.csv").open() as lines:
        return list(csv.DictReader(lines))


def test_every_cell_is_run_to_the_papers_budget_as_the_preset_has_it(asked, tmp_path):
    table = drawn(tmp_path)
    assert len(asked) == 3 * len(VARIANTS)
    # With pre-training, all rows of a task have as many frames.
    totals = {(run.task, run.steps + (run.init.steps if run.init else 0)) for run in asked}
    assert totals == set(BUDGETS.items())
    assert {(run.seed, run.seeds) for run in asked} == {(11, 2)}
    assert not any(name.endswith("beta") for run in asked for name in run.changes)
    assert [row["label"] for row in table] == 3 * [row.label for row in VARIANTS.values()]
    # None for rows without a bonus.
    assert {row["beta"] for row in table if row["label"].endswith("PT only")} == {""}
    assert len(list((tmp_path / "out").glob("recommended-*.csv"))) == len(asked)


def test_the_figures_seeds_are_neither_those_of_the_preset_nor_those_of_the_search():
    last = minigrid.FIRST_SEED + minigrid.SEEDS - 1
    assert 10 < minigrid.FIRST_SEED < last < minigrid_betas.FIRST_SEED


def test_frames_of_pretraining_are_on_the_axis_and_in_the_total(asked, tmp_path, monkeypatch):
    axes_of = {}
    draw = curves.draw_axes

    def draw_axes(axes, panel, title, labels):
        axes_of[title] = {curve.label: curve.env_frames.tolist() for curve in panel}
        draw(axes, panel, title, labels)

    monkeypatch.setattr(curves, "draw_axes", draw_axes)
    table = drawn(tmp_path, "--tasks", "doorkey_6x6", "--rows", "none", "re3", "apt_pt_only")
    assert axes_of["DoorKey-6x6"] == {
        "A2C": [0, 400_000],
        "A2C + RE3": [0, 400_000],
        "A2C + APT PT only": [TRAINED, TRAINED + 300_000],
    }
    found = [(row["pretraining_frames"], row["env_frames"]) for row in table]
    assert found == [("0", "400000"), ("0", "400000"), (str(TRAINED), str(TRAINED + 300_000))]
    assert [bool(row["better_than_none"]) for row in table] == [False, True, True]
    assert [bool(row["better_than_re3"]) for row in table] == [False, False, True]
    # Every made-up run ends at the same return.
    assert (table[1]["better_than_none"], table[2]["better_than_none"]) == ("0.5", "0.5")


@pytest.mark.parametrize("name", ["apt_pt", "apt_pt_only"])
def test_apt_takes_neighbours_from_the_minibatch(name):
    run = VARIANTS[name].run("doorkey_6x6", "recommended", 0.01)
    assert run.init.changes["learned.neighbours"] == "minibatch"
    assert run.changes.get("learned.neighbours") == (None if "only" in name else "minibatch")


def test_finished_rows_are_drawn_without_training(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Runs, "ensure", None)
    words = ["--finished", "--tasks", "doorkey_6x6", "--rows", "none", "rnd", "--seeds", "2"]
    words += ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert minigrid.main(words) == 2
    assert "none of the runs is finished" in capsys.readouterr().err
    run = VARIANTS["rnd"].run("doorkey_6x6", "recommended")
    runs = Runs(tmp_path / "runs")
    finish(runs, run._replace(seeds=2), {0: 0.0, 400_000: 1.0})
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda figure, title: titles.append(title))
    assert [row["label"] for row in drawn(tmp_path, *words)] == ["A2C + RND"]
    assert titles == ["1 of 2 runs are still missing"]


def test_the_preset_has_the_weights_that_the_search_found():
    found = minigrid_betas.searched(Path("results/minigrid_betas/recommended.json"))
    searched = [(task, name) for task, of_task in found.items() for name in of_task]
    assert found.keys() == TASKS.keys() and len(searched) >= 3 * 4
    for task, name in searched:
        assert VARIANTS[name].preset_beta(task, "recommended") == found[task][name]["beta"]


@pytest.mark.parametrize(
    ("task", "rnd", "fine_tuning"),
    [("empty_16x16", 5e-5, 0.1), ("doorkey_6x6", 1e-4, 0.05), ("doorkey_8x8", 5e-5, 0.05)],
)
@pytest.mark.parametrize("preset", ["paper", "released"])
def test_the_papers_weights_are_the_papers(preset, task, rnd, fine_tuning):
    assert VARIANTS["rnd"].preset_beta(task, preset) == rnd
    assert VARIANTS["re3_pt"].preset_beta(task, preset) == fine_tuning


@pytest.mark.parametrize("first_seed", [11, 101])
@pytest.mark.parametrize(
    ("name", "pretrained", "then"),
    [("re3_pt", "re3", "re3"), ("contrastive_pt_only", "contrastive", "none")],
)
def test_a_row_starts_from_its_pretraining_with_the_same_seeds(
    monkeypatch, tmp_path, name, pretrained, then, first_seed
):
    started = []

    def start(runs, command, log):
        words = command[command.index("--env") :]
        started.append(dict(zip(words[::2], words[1::2], strict=True)))
        return 0

    monkeypatch.setattr(Runs, "start", start)
    run = VARIANTS[name].run("doorkey_8x8", "recommended")
    Runs(tmp_path).ensure(run._replace(seeds=2, seed=first_seed, steps=1_000))
    before, after = started
    shared = {"--agent": "a2c", "--preset": "recommended", "--seeds": "2"}
    shared |= {"--seed": str(first_seed)}
    folder = before.pop("--out")
    assert before == shared | {
        "--env": "empty_16x16",
        "--bonus": pretrained,
        "--pretrain": "100000",
    }
    assert after.pop("--out") != folder
    assert after == shared | {
        "--env": "doorkey_8x8",
        "--bonus": then,
        "--steps": "1000",
        "--init": folder,
    }


def test_the_search_halves_the_papers_nine_and_keeps_the_best(asked, tmp_path):
    """The areas made up here are largest at 0.005, then at 0.01 and 0.001."""
    words = ["--tasks", "doorkey_8x8", "--rows", "icm", "--seeds", "2", "--out", str(tmp_path)]
    assert minigrid_betas.main([*words, "--runs", str(tmp_path / "runs")]) == 0
    first, second = asked[:9], asked[9:]
    assert [float(run.changes["icm.beta"]) for run in first] == list(minigrid_betas.BETAS)
    assert [float(run.changes["icm.beta"]) for run in second] == [0.005, 0.01, 0.001]
    assert {run.steps for run in first} == {1_024_000}
    assert {run.steps for run in second} == {2_400_000}
    assert {run.changes["evaluation.every-env-frames"] for run in asked} == {"128000"}
    assert {(run.seeds, run.seed) for run in asked} == {(2, 101)}
    written = json.loads((tmp_path / "recommended.json").read_text())
    found = written["searched"]["doorkey_8x8"]["icm"]
    assert found["seeds"] == [101, 102] and found["beta"] == 0.005
    assert [len(rung["scores"]) for rung in found["rungs"]] == [9, 3]
    assert minigrid_betas.searched(tmp_path / "recommended.json") == {"doorkey_8x8": {"icm": found}}


def test_a_search_keeps_earlier_results(asked, tmp_path):
    for task in ("doorkey_6x6", "empty_16x16"):
        words = ["--tasks", task, "--rows", "rnd", "--seeds", "2", "--out", str(tmp_path)]
        assert minigrid_betas.main([*words, "--runs", str(tmp_path / task)]) == 0
    found = minigrid_betas.searched(tmp_path / "recommended.json")
    assert found.keys() == {"doorkey_6x6", "empty_16x16"}


def test_the_score_is_the_area_up_to_the_rung(tmp_path):
    write_evaluations(tmp_path / "run", [(0, 0.0), (100, 0.4), (200, 0.6), (400, 5.0)])
    # Trapezoids of 20 and 50 over 200 frames.
    assert minigrid_betas.area(tmp_path / "run", 200) == pytest.approx(0.35)
    assert minigrid_betas.area(tmp_path / "run", 100) == pytest.approx(0.2)


@pytest.mark.parametrize("text", ["", "[]", '{"searched": {"doorkey_6x6": 1}}', '{"found": {}}'])
def test_a_file_that_is_no_search_is_refused(tmp_path, text):
    (tmp_path / "recommended.json").write_text(text)
    with pytest.raises(UsageError, match="does not hold searched betas .*: remove it, or choose"):
        minigrid_betas.searched(tmp_path / "recommended.json")


@pytest.mark.parametrize("seeds", ["0", "-3"])
def test_a_figure_of_no_seeds_is_refused(seeds, capsys):
    assert minigrid.main(["--finished", "--seeds", seeds]) == 2
    assert f"argument --seeds: {seeds} is no whole number above 0" in capsys.readouterr().err


@pytest.mark.parametrize("name", VARIANTS)
def test_options_of_every_row_are_options_of_a_run(name):
    run = VARIANTS[name].run("doorkey_6x6", "recommended", 0.01)
    for each in filter(None, (run, run.init)):
        words = ["--env", each.task, "--bonus", each.bonus]
        for option, value in each.changes.items():
            words += option_with(option, value).split()
        assert parse(words).bonus == each.bonus
    assert run.init is None or parse(words).steps == 100_000
