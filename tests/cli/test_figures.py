"""The paper's figures: the runs they start, and what they draw from made-up rows."""

import csv
import json
import os
import time

import pytest
from matplotlib import image

from experiments.figures import (
    dmc,
    dreamer,
    minigrid,
    minigrid_deviations,
    minigrid_hard_betas,
    rainbow,
)
from experiments.figures.minigrid import VARIANTS
from experiments.figures.rows import file_name
from experiments.figures.runs import Run, Runs
from re3_jax.runs.errors import UsageError
from tests.cli.written_runs import finish


@pytest.fixture
def started(monkeypatch):
    """The command lines of processes that would be started; each exits with 0."""
    commands = []

    def start(runs, command, log):
        commands.append(command[1:])
        return 0

    monkeypatch.setattr(Runs, "start", start)
    return commands


RUN = Run("doorkey_6x6", "re3", "released", seeds=2, steps=100)


def ensure(folder, **changes):
    return Runs(folder).ensure(RUN._replace(**changes))


FOLDER = "doorkey_6x6-re3-released"
RETURNS = {0: 0.0, 100: 0.5}
BONUSES = ("none", "re3")


def test_a_complete_run_is_not_run_again(started, tmp_path):
    assert finish(Runs(tmp_path), RUN, RETURNS) == tmp_path / FOLDER
    assert ensure(tmp_path) == tmp_path / FOLDER
    assert started == []


@pytest.mark.parametrize("left", [{"complete": False}, {"env_frames": 99}])
def test_an_interrupted_or_too_short_run_is_resumed(started, tmp_path, left):
    finish(Runs(tmp_path), RUN, RETURNS, **left)
    ensure(tmp_path)
    (command,) = started
    assert "--resume" in command
    assert command[command.index("--steps") + 1] == "100"


def test_a_run_interrupted_past_what_is_asked_for_is_finished(started, tmp_path):
    """A search that was stopped in its second rung asks for the first again."""
    folder = finish(Runs(tmp_path), RUN._replace(steps=400), RETURNS, complete=False)
    assert ensure(tmp_path) == folder and started == []
    finish(Runs(tmp_path), RUN._replace(steps=400), RETURNS, complete=False, env_frames=99)
    ensure(tmp_path)
    assert "--resume" in started[0]


def test_a_run_killed_before_its_summary_is_resumed(started, tmp_path):
    finish(Runs(tmp_path), RUN, RETURNS)
    (tmp_path / FOLDER / "summary.json").unlink()
    ensure(tmp_path)
    assert "--resume" in started[0]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"final_return": null}', '{"final_return": {}}'])
def test_a_broken_summary_is_one_sentence(text, started, tmp_path):
    (finish(Runs(tmp_path), RUN, RETURNS) / "summary.json").write_text(text)
    with pytest.raises(UsageError, match="summary.json is broken: delete it, and its run is resum"):
        ensure(tmp_path)
    assert started == []


def test_a_file_counts_by_its_contents_wherever_it_is(started, tmp_path):
    weights, moved = tmp_path / "a" / "weights", tmp_path / "b" / "weights"
    for file in (weights, moved):
        file.parent.mkdir()
        file.write_bytes(b"1")

    def of(file):
        changes = {"pretrained.weights": str(file)}
        return Run("hopper_hop", "imagenet", "small", 1, 100, "rad", changes)

    folder = finish(Runs(tmp_path), of(weights), RETURNS)
    assert Runs(tmp_path).ensure(of(moved)) == folder and started == []
    moved.write_bytes(b"2")
    with pytest.raises(UsageError, match="is not the file that the run in .* was started with"):
        Runs(tmp_path).ensure(of(moved))


def test_a_missing_run_is_started_with_its_changes(started, tmp_path):
    folder = ensure(tmp_path, changes={"re3.normalize": "none"})
    assert folder == tmp_path / f"{FOLDER}-normalize_none"
    (command,) = started
    assert command[:2] == ["-m", "experiments.train"]
    assert "--resume" not in command
    words = {"--env": "doorkey_6x6", "--bonus": "re3", "--preset": "released", "--seeds": "2"}
    words |= {"--re3.normalize": "none", "--steps": "100", "--out": str(folder)}
    for option, value in words.items():
        assert command[command.index(option) + 1] == value


def test_a_switch_is_turned_on_or_off(started, tmp_path):
    folder = ensure(tmp_path, changes={"rainbow.noisy": False, "re3.merge_copies": True})
    assert folder.name == f"{FOLDER}-noisy_False-merge_copies_True"
    assert {"--rainbow.no-noisy", "--re3.merge-copies"} < set(started[0])
    assert not {"True", "False"} & set(started[0])


def test_rows_that_share_a_run_train_it_once(monkeypatch, tmp_path):
    """Even if both ask for it at the same time."""
    begun = []

    def start(runs, command, log):
        begun.append(log)
        time.sleep(0.2)
        finish(Runs(tmp_path), RUN, RETURNS)
        return 0

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(Runs, "start", start)
    folders = Runs(tmp_path, 2).ensure_all([RUN, RUN])
    assert folders == [tmp_path / FOLDER] * 2
    assert len(begun) == 1


@pytest.mark.parametrize("complete", [True, False])
def test_a_run_of_other_seeds_is_refused(started, tmp_path, complete):
    finish(Runs(tmp_path), RUN._replace(seeds=3), RETURNS, complete=complete)
    with pytest.raises(UsageError, match=r"has 3 seeds, not 2: .* --seeds, .* --runs"):
        ensure(tmp_path)
    assert started == []


def test_what_cannot_be_drawn_is_refused_before_anything_is_trained(started, tmp_path):
    runs = Runs(tmp_path)
    finish(runs, RUN._replace(bonus="none", seeds=3), RETURNS)
    with pytest.raises(UsageError, match=r"has 3 seeds, not 2"):
        runs.ensure_all([RUN, RUN._replace(bonus="none")])
    assert started == []


def test_options_without_effect_on_what_a_run_computes_are_not_compared(started, tmp_path):
    runs = Runs(tmp_path)
    finish(runs, RUN, RETURNS)
    path = tmp_path / FOLDER / "config.json"
    stored = json.loads(path.read_text())["config"]
    stored["icm"]["beta"] = stored["ppo"]["gae_lambda"] = 0.5
    # What changes nothing that is computed is not compared either.
    stored |= {"loggers": "none", "checkpoint_seconds": 1.0, "out": "elsewhere"}
    path.write_text(json.dumps({"config": stored}))
    assert runs.ensure(RUN) == tmp_path / FOLDER
    stored["re3"]["beta"] = 0.5
    path.write_text(json.dumps({"config": stored}))
    with pytest.raises(UsageError, match=r"has --re3.beta 0.5, and this figure needs --re3.beta"):
        Runs(tmp_path).ensure(RUN)
    assert started == []


@pytest.mark.parametrize("code", [2, 130])
def test_the_exit_code_of_a_run_that_fails_is_passed_on(monkeypatch, tmp_path, code):
    monkeypatch.setattr(Runs, "start", lambda runs, command, log: code)
    with pytest.raises(SystemExit) as exit_:
        minigrid.main(["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    assert exit_.value.code == code


def read(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


def test_minigrid_has_a_panel_per_task_and_a_row_per_curve(started, tmp_path):
    runs, out = tmp_path / "runs", tmp_path / "out"
    tasks = ("empty_16x16", "doorkey_6x6")
    for i, task in enumerate(tasks):
        for j, bonus in enumerate(BONUSES):
            run = VARIANTS[bonus].run(task, "paper")._replace(seeds=2)
            finish(Runs(runs), run, {0: 0.0, 400_000: (2 * i + j + 1) / 10})
    words = ["--presets", "paper", "--tasks", *tasks, "--seeds", "2"]
    words += ["--rows", "none", "re3"]
    assert minigrid.main([*words, "--runs", str(runs), "--out", str(out)]) == 0
    assert started == []
    table = read(out / "paper.csv")
    assert [(row["task"], row["label"], float(row["final_return_mean"])) for row in table] == [
        ("empty_16x16", "A2C", 0.1),
        ("empty_16x16", "A2C + RE3", 0.2),
        ("doorkey_6x6", "A2C", 0.3),
        ("doorkey_6x6", "A2C + RE3", 0.4),
    ]
    assert {(row["seeds"], row["env_frames"]) for row in table} == {("2", "400000")}
    copies = {f"paper-{task}-{bonus}.csv" for task in tasks for bonus in BONUSES}
    assert {path.name for path in out.iterdir()} == {"paper.csv", "paper.png", *copies}
    ours, theirs = (
        out / "paper-doorkey_6x6-re3.csv",
        runs / "doorkey_6x6-re3-paper-seed_11" / "eval.csv",
    )
    assert ours.read_bytes() == theirs.read_bytes()
    assert (out / "paper.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def asked(monkeypatch):
    """The requested runs, in order; the n-th ends with a return of n / 10."""
    asked = []

    def ensure(runs, run):
        asked.append(run)
        folder = finish(runs, run, {0: 0.0, run.steps: len(asked) / 10})
        with (folder / "train.csv").open("w") as out:
            out.write("seed,env_frames,image_loss,reward_loss,kl\n")
            out.writelines(f"{i},{run.steps},{i + 1},nan,1\n" for i in range(run.seeds))
        return folder

    monkeypatch.setattr(Runs, "ensure", ensure)
    return asked


@pytest.mark.parametrize(("figure", "agent"), [(rainbow, "rainbow"), (dreamer, "dreamer")])
def test_an_agent_has_a_panel_per_task_with_and_without_re3(figure, agent, asked, tmp_path):
    out = tmp_path / "out"
    assert figure.main(["--runs", str(tmp_path / "runs"), "--out", str(out)]) == 0
    rows = [row for _, panel in figure.PANELS.values() for row in panel]
    assert asked == [row.run for row in rows]
    assert {(run.agent, run.preset) for run in asked} == {(agent, "recommended")}
    assert {run.bonus for run in asked} == {"none", "re3"}
    table = read(out / "table.csv")
    assert [(row["label"], float(row["final_return_mean"])) for row in table] == [
        (row.label, pytest.approx((i + 1) / 10)) for i, row in enumerate(rows)
    ]
    compared = {"larger_area_than_none", "better_than_preset"}
    assert compared & table[0].keys() == (compared if figure is rainbow else set())
    tasks = [name for name, (_, panel) in figure.PANELS.items() for _ in panel]
    assert [row["task"] for row in table] == tasks
    assert all(row.name.startswith(f"{task}-") for row, task in zip(rows, tasks, strict=True))
    copies = {f"{row.name}.csv" for row in rows}
    copies |= {f"{row.name}-train.csv" for row in rows if figure is dreamer}
    assert len({row.name for row in rows}) == len(rows)
    assert {path.name for path in out.iterdir()} == {"table.csv", "curves.png", *copies}


def test_a_panel_without_a_finished_run_is_left_out(tmp_path):
    folder, out = tmp_path / "runs", tmp_path / "out"
    row = rainbow.PANELS["asterix"][1][0]
    finish(Runs(folder), row.run, {0: 0.0, row.run.steps: 2.0})
    assert rainbow.main(["--finished", "--runs", str(folder), "--out", str(out)]) == 0
    assert [(found["task"], found["label"]) for found in read(out / "table.csv")] == [
        ("asterix", row.label)
    ]
    # One panel of 4.8 inches.
    assert image.imread(out / "curves.png").shape[1] == pytest.approx(4.8 * 130, abs=1)


def test_given_numbers_override_the_figures(asked, tmp_path):
    words = ["--tasks", "deep_sea", "--seeds", "2", "--steps", "1000"]
    words += ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert rainbow.main(words) == 0
    assert {(run.task, run.seeds, run.steps) for run in asked} == {
        ("gymnax:DeepSea-bsuite-14", 2, 1000)
    }


def test_deviations_have_one_row_per_change(asked, tmp_path):
    out = tmp_path / "out"
    words = ["--seeds", "2", "--steps", "100", "--runs", str(tmp_path / "runs")]
    assert minigrid_deviations.main([*words, "--out", str(out)]) == 0
    rows = minigrid_deviations.ROWS.values()
    assert asked == [run._replace(seeds=2, steps=100) for run in rows]
    assert {run.task for run in asked} == {"doorkey_6x6"}
    table = read(out / "table.csv")
    labels = list(minigrid_deviations.ROWS)
    assert [row["label"] for row in table] == labels
    assert [float(row["final_return_mean"]) for row in table] == [
        pytest.approx((i + 1) / 10) for i in range(len(labels))
    ]
    copies = {file_name(label) + ".csv" for label in labels}
    assert len(copies) == len(labels)
    assert {path.name for path in out.iterdir()} == {"table.csv", "curves.png", *copies}
    assert (out / "RMSprop_eps_0.01.csv").exists()


@pytest.mark.parametrize("figure", [minigrid, minigrid_deviations])
def test_other_seeds_end_the_command_with_one_sentence(figure, started, tmp_path, capsys):
    rows = minigrid_deviations.ROWS.values()
    if figure is minigrid:
        rows = [VARIANTS[name].run("empty_16x16", "recommended") for name in BONUSES]
    for run in rows:
        finish(Runs(tmp_path), run._replace(seeds=3), RETURNS)
    words = ["--seeds", "2", "--runs", str(tmp_path), "--out", str(tmp_path / "out")]
    assert figure.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: the run in ") and said.count("\n") == 1
    assert started == []


@pytest.mark.parametrize(
    ("option", "given"), [("--seeds", "0"), ("--seeds", "-1"), ("--steps", "0")]
)
def test_numbers_below_one_are_refused(option, given, capsys):
    assert dmc.main([option, given, "--state"]) == 2
    said = capsys.readouterr().err
    sentence = f"error: argument {option}: {given} is no whole number above 0; --help lists "
    assert said == f"{sentence}the options\n"


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert minigrid_hard_betas.main(["--out", str(tmp_path / "file")]) == 2
    assert "File exists" in capsys.readouterr().err
