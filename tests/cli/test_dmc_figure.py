"""The figure of DeepMind Control, drawn from run folders written by hand."""

import csv
import json

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.figures import dmc
from experiments.figures.runs import Run, Runs
from re3_jax.runs import labels
from re3_jax.runs.curves import Curve, improvement
from tests.cli.written_runs import finish


def write_run(folder, task="walker_walk", agent="rad", bonus="re3", preset="small", **change):
    final, seeds = change.get("final", 100.0), change.get("seeds", (1, 2))
    folder.mkdir(parents=True)
    config = {"env": task, "agent": agent, "bonus": bonus, "preset": preset}
    config |= {"pretrain": None, "init": None, "sac": change.get("sac", {"n_steps": 3})}
    (folder / "config.json").write_text(json.dumps({"config": config}))
    with (folder / "eval.csv").open("w") as out:
        out.write("seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean\n")
        for seed in seeds:
            out.writelines(f"{seed},{x},1.0,10,{y},0,500\n" for x, y in ((0, 0), (5000, final)))
    return str(folder)


def write_reference(path, header="env,seed,step,episode_reward"):
    lines = [header]
    for seed, scale in ((1, 1.0), (2, 3.0)):
        lines += [f"walker_walk,{seed},{step},{scale * step}" for step in (0, 4000, 8000)]
    path.write_text("\n".join(lines) + "\n")
    return ["--reference", str(path)]


def read(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


def test_folders_are_pooled_by_what_they_ran(tmp_path):
    folders = [
        write_run(tmp_path / "a", final=10.0),
        write_run(tmp_path / "b", "dmc:walker_walk", final=40.0, seeds=(3,)),
        write_run(tmp_path / "c", bonus="none", final=5.0),
        write_run(tmp_path / "d", "hopper_hop", agent="drq", final=7.0),
        write_run(tmp_path / "e", "hopper_hop", agent="dreamer", final=8.0),
    ]
    reference = write_reference(tmp_path / "authors.csv")
    out = tmp_path / "out"
    assert dmc.main([*folders, *reference, "--out", str(out)]) == 0
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in out.iterdir()} == {
        "curves.png",
        "table.csv",
        *(f"{name}.csv" for name in "abcde"),
    }
    found = {(row["task"], row["label"]): row for row in read(out / "table.csv")}
    assert {key: (row["seeds"], row["env_frames"]) for key, row in found.items()} == {
        ("walker_walk", "RAD"): ("2", "5000"),
        ("walker_walk", "RAD + RE3"): ("3", "5000"),
        # The reference's evaluation at 8000 comes after the runs' last one.
        ("walker_walk", "authors"): ("2", "4000"),
        ("hopper_hop", "DrQ + RE3"): ("2", "5000"),
        ("hopper_hop", "Dreamer + RE3"): ("2", "5000"),
    }
    means = {label: float(row["final_return_mean"]) for (_, label), row in found.items()}
    ours = {"RAD": 5.0, "RAD + RE3": 20.0, "DrQ + RE3": 7.0, "Dreamer + RE3": 8.0}
    assert means == {**ours, "authors": 8000.0}
    better = {label: row["better_than_none"] for (_, label), row in found.items()}
    # The others have no bonus, or there is no run of theirs without one.
    assert better == {**dict.fromkeys(better, ""), "RAD + RE3": "1"}


def test_every_bonus_is_compared_with_the_run_without_and_with_re3(tmp_path):
    bonuses = list(dmc.BONUSES)
    folders = [
        write_run(tmp_path / bonus, bonus=bonus, final=10.0 * (1 - 2 * (bonus == "icm")))
        for bonus in reversed(bonuses)
    ]
    assert dmc.main([*folders, "--out", str(tmp_path / "out")]) == 0
    found = read(tmp_path / "out" / "table.csv")
    assert [row["label"] for row in found] == [labels.of("rad", bonus) for bonus in bonuses]
    better = dict(zip(bonuses, (row["better_than_none"] for row in found), strict=True))
    assert better == {**dict.fromkeys(bonuses, "0.5"), "none": "", "icm": "0"}
    better = dict(zip(bonuses, (row["better_than_re3"] for row in found), strict=True))
    assert better == {**dict.fromkeys(bonuses, "0.5"), "re3": "", "icm": "0"}


@pytest.mark.parametrize("rows", [dmc.MOST_INSIDE, dmc.MOST_INSIDE + 1])
def test_the_legend_of_many_rows_is_below_the_curves(rows):
    ends = np.array([0, 10]), np.zeros((2, 2))
    picture = dmc._picture({"walker_walk": [Curve(f"row {n}", *ends) for n in range(rows)]})
    (axes,) = picture.axes
    if rows <= dmc.MOST_INSIDE:
        assert axes.get_legend() is not None and not picture.legends
        return
    assert axes.get_legend() is None
    picture.draw_without_rendering()
    below = picture.legends[0].get_window_extent()
    assert 0 <= below.y0 and below.y1 <= axes.get_window_extent().y0
    assert 0 <= below.x0 and below.x1 <= picture.bbox.x1


def test_the_probability_of_improvement_is_at_the_last_frame_of_both():
    baseline = Curve("RAD", np.array([0, 10, 20]), np.array([[0, 5, 0], [0, 7, 0]]))
    curve = Curve("RAD + RE3", np.array([0, 10]), np.array([[0, 6], [0, 8.0], [0, 4]]))
    # Of 6 pairs, 3 are better at frame 10: 6 > 5, 8 > 5 and 8 > 7.
    assert improvement(curve, baseline)[0] == "0.5"
    # Up to frame 10, the areas are half of that.
    assert improvement(curve, baseline)[4] == "0.5"
    early = Curve("RAD + RE3", np.array([0, 5, 10]), np.array([[0, 9, 0], [0, 9.0, 8]]))
    # Both have a larger area; of the 4 pairs at the end, 2 are better.
    assert [improvement(early, baseline)[at] for at in (0, 4)] == ["0.5", "1"]
    one_seed = curve._replace(returns=curve.returns[:1])
    assert improvement(one_seed, baseline) == [""] * 8
    assert improvement(curve, None) == [""] * 8


def test_presets_are_told_apart(tmp_path):
    folders = [write_run(tmp_path / name, preset=name) for name in ("small", "paper")]
    assert dmc.main([*folders, "--out", str(tmp_path / "out")]) == 0
    labels = [row["label"] for row in read(tmp_path / "out" / "table.csv")]
    assert labels == ["RAD paper + RE3", "RAD small + RE3"]


def test_runs_of_other_options_are_not_pooled(tmp_path, capsys):
    folders = [
        write_run(tmp_path / f"{steps}", seeds=(steps,), sac={"n_steps": steps}) for steps in (1, 3)
    ]
    assert dmc.main([*folders, "--out", str(tmp_path / "out")]) == 2
    assert (
        "differ in --sac.n-steps: give runs that differ in their seeds" in capsys.readouterr().err
    )


def test_a_seed_counts_once(tmp_path, capsys):
    folders = [write_run(tmp_path / name) for name in ("a", "b")]
    assert dmc.main([*folders, "--out", str(tmp_path / "out")]) == 2
    assert "both hold seed 1" in capsys.readouterr().err


def test_a_finished_run_of_other_options_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Runs, "start", None)
    run = Run("walker_walk", "re3", "small", seeds=1, steps=5_000, agent="rad")
    runs = Runs(tmp_path / "runs")
    folder = finish(runs, run._replace(changes={"sac.n_steps": "1"}), {0: 0.0, 5000: 1.0})
    folder.rename(runs.folder_of(run))
    words = ["--tasks", "walker_walk", "--preset", "small", "--seeds", "1", "--steps", "5000"]
    words += ["--bonuses", "re3", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert dmc.main(words) == 2
    assert "has --sac.n-steps 1, and this figure needs --sac.n-steps 3" in capsys.readouterr().err


def test_a_run_names_the_renderer_that_was_chosen_for_it(monkeypatch, tmp_path):
    """`auto` in the preset is `gl` or `warp` in a run's config.json."""
    monkeypatch.setattr(Runs, "start", None)
    runs, finished = Runs(tmp_path / "runs"), []
    for bonus in ("none", "re3"):
        run = Run("walker_walk", bonus, "debug", seeds=1, steps=5_000, agent="rad")
        assert runs.config(run).dmc.renderer == "auto"
        chosen = run._replace(changes={"dmc.renderer": "warp"})
        folder = finish(runs, chosen, {0: 0.0, 5000: 1.0})
        folder.rename(runs.folder_of(run))
        finished += runs.finished([run])
    assert [folder.name for folder in finished] == [
        "walker_walk-rad-none-debug",
        "walker_walk-rad-re3-debug",
    ]


def test_options_go_to_every_run_and_into_its_name(monkeypatch, tmp_path):
    monkeypatch.setattr(Runs, "ensure", lambda runs, run: finish(runs, run, {0: 0.0, 5000: 1.0}))
    words = ["--tasks", "walker_walk", "--preset", "small", "--seeds", "1", "--steps", "5000"]
    words += ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert dmc.main([*words, "--options", "sac.n_steps=1"]) == 0
    for bonus in ("none", "re3"):
        folder = tmp_path / "runs" / f"walker_walk-rad-{bonus}-small-n_steps_1"
        assert json.loads((folder / "config.json").read_text())["config"]["sac"]["n_steps"] == 1


def test_a_switch_is_an_option_and_those_of_a_bonus_go_to_its_runs(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(Runs, "ensure_all", lambda runs, wanted: asked.extend(wanted) or [])
    words = ["--tasks", "walker_walk", "--preset", "small", "--seeds", "1", "--steps", "5000"]
    words += ["--options", "sac.frame-differences=False", "re3.beta=0.1"]
    dmc.main([*words, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    switch = {"sac.frame_differences": False}
    assert [(run.bonus, dict(run.changes)) for run in asked] == [
        ("none", switch),
        ("re3", switch | {"re3.beta": "0.1"}),
    ]


def test_the_state_is_said_and_nothing_trained(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Runs, "ensure", None)
    runs = Runs(tmp_path / "runs")
    run = Run("walker_walk", "re3", "small", seeds=1, steps=5_000, agent="rad")
    finish(runs, run, {0: 0.0, 2500: 1.0}, complete=False, wall_seconds=3_600.0)
    words = ["--tasks", "walker_walk", "--preset", "small", "--seeds", "1", "--steps", "5000"]
    assert dmc.main([*words, "--state", "--runs", str(tmp_path / "runs")]) == 0
    # 7,500 frames at 2,500 an hour.
    expected = "0 of 2 runs done, 1 begun, 1 waiting, about 3.0 hours to go\n"
    assert capsys.readouterr().out == expected


def test_missing_runs_are_trained_seed_by_seed_where_the_preset_has_one(
    monkeypatch, tmp_path, capsys
):
    asked = []

    def ensure(runs, run):
        asked.append(run)
        return finish(runs, run, {0: 0.0, 5000: 100.0}, wall_seconds=7_200.0)

    monkeypatch.setattr(Runs, "ensure", ensure)
    words = ["--tasks", "walker_walk", "pendulum_swingup", "--preset", "small", "--steps", "5000"]
    words += ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--seeds", "2"]
    assert dmc.main(words) == 0
    assert asked == [
        Run(task, bonus, "small", seeds=1, steps=5_000, agent="rad", seed=seed)
        for task in ("walker_walk", "pendulum_swingup")
        for seed in (1, 2)
        for bonus in ("none", "re3")
    ]
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "0 of 8 runs done, 0 begun, 8 waiting",
        "1 of 8 runs done, 0 begun, 7 waiting, about 14.0 hours to go",
    ]
    assert said[8] == "8 of 8 runs done, 0 begun, 0 waiting, about 0.0 hours to go"
    rows = read(tmp_path / "out" / "table.csv")
    assert [(row["task"], row["label"], row["seeds"]) for row in rows] == [
        ("walker_walk", "RAD", "2"),
        ("walker_walk", "RAD + RE3", "2"),
        ("pendulum_swingup", "RAD", "2"),
        ("pendulum_swingup", "RAD + RE3", "2"),
    ]


@pytest.mark.parametrize(("more", "first"), [((), 1), (("--first-seed", "2"), 2)])
def test_the_seeds_of_one_program_are_one_run(monkeypatch, tmp_path, more, first):
    asked = []
    monkeypatch.setattr(Runs, "ensure_all", lambda runs, wanted: asked.extend(wanted) or [])
    words = ["--tasks", "hopper_hop", "--preset", "paper", "--seeds", "7", "--steps", "5000", *more]
    dmc.main([*words, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    assert [(run.bonus, run.seed, run.seeds) for run in asked] == [
        ("none", first, 5),
        ("re3", first, 5),
        ("none", first + 5, 2),
        ("re3", first + 5, 2),
    ]


def test_bonuses_are_chosen_and_given_their_weights(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(Runs, "ensure_all", lambda runs, wanted: asked.extend(wanted) or [])
    words = ["--tasks", "hopper_hop", "--preset", "small", "--seeds", "1", "--steps", "5000"]
    words += ["--bonuses", "none", "rnd", "atc", "--weights", "atc=params.pkl"]
    dmc.main([*words, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    assert [(run.bonus, dict(run.changes)) for run in asked] == [
        ("none", {}),
        ("rnd", {}),
        ("atc", {"pretrained.weights": "params.pkl"}),
    ]


def test_finished_runs_are_drawn_without_training(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Runs, "ensure", None)
    words = ["--tasks", "walker_walk", "--preset", "small", "--seeds", "2", "--steps", "5000"]
    words += ["--finished", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert dmc.main(words) == 2
    assert "none of the runs is finished" in capsys.readouterr().err
    run = Run("walker_walk", "re3", "small", seeds=1, steps=5_000, agent="rad")
    finish(Runs(tmp_path / "runs"), run, {0: 0.0, 5000: 1.0})
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda figure, title: titles.append(title))
    assert dmc.main(words) == 0
    assert titles == ["3 of 4 runs are still missing"]
    assert [row["label"] for row in read(tmp_path / "out" / "table.csv")] == ["RAD + RE3"]


def test_runs_that_went_on_are_drawn_as_far_as_the_others(tmp_path):
    words = ["--tasks", "walker_walk", "--preset", "small", "--seeds", "1", "--steps", "5000"]
    words += ["--finished", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    for bonus, returns in (("none", {5000: 1.0, 9000: 60.0}), ("re3", {5000: 7.0})):
        run = Run("walker_walk", bonus, "small", seeds=1, steps=5_000, agent="rad")
        finish(Runs(tmp_path / "runs"), run, {0: 0.0, **returns})
    assert dmc.main(words) == 0
    assert [
        (row["label"], row["env_frames"], row["final_return_mean"])
        for row in read(tmp_path / "out" / "table.csv")
    ] == [("RAD", "5000", "1"), ("RAD + RE3", "5000", "7")]


def test_the_agent_is_in_the_name_of_a_run_made_for_it(monkeypatch, tmp_path):
    started = []

    def run(runs, command, log):
        started.append(command)
        return 0

    monkeypatch.setattr(Runs, "start", run)
    wanted = Run("walker_walk", "re3", "small", seeds=1, steps=5, agent="drq")
    folder = Runs(tmp_path).ensure(wanted)
    assert folder.name == "walker_walk-drq-re3-small"
    assert started[0][started[0].index("--agent") + 1] == "drq"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda path: ["missing"], "holds no run"),
        (lambda path: [write_run(path / "x", agent="a2c")], "draws rad, drq, dreamer with"),
        (lambda path: ["--tasks", "walker_wallk"], "walker_walk"),
        (lambda path: ["--weights", "imagenet"], "write it as imagenet=FILE"),
        (lambda path: ["--weights", "atc=FILE"], "no effect without --bonuses atc"),
        (lambda path: ["--options", "sac.n_steps"], "write it as sac.n_steps=1"),
        (lambda path: ["--options", "steps=5"], "write it as sac.n_steps=1"),
        (lambda path: ["--state", "--options", "sac.n_stepps=5"], "--sac.n-stepps"),
        (lambda path: ["--state", "--options", "icm.beta=5"], "--icm.beta has no effect"),
        *(
            (lambda path, more=more: [write_run(path / "x"), *more], f"{more[0]} is about the runs")
            for more in (["--state"], ["--options", "sac.n_steps=1"], ["--first-seed", "2"])
        ),
        (lambda path: [write_run(path / "x"), "--tasks", "hopper_hop"], "leave it or the folders"),
        (lambda path: ["--reference", str(path / "none.csv")], "cannot be read as a reference"),
        (
            lambda path: write_reference(path / "r.csv", "task,seed,step,episode_reward"),
            "the columns env, seed, step and episode_reward",
        ),
        (
            lambda path: [
                write_run(path / "x" / "same"),
                write_run(path / "y" / "same", seeds=(3,)),
            ],
            "two of the folders are called same",
        ),
    ],
)
def test_folders_that_cannot_be_drawn_end_in_one_sentence(tmp_path, capsys, spoil, sentence):
    words = [*spoil(tmp_path), "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    assert dmc.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and sentence in said
