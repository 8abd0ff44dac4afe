"""The searches of Rainbow's settings on DeepSea and MinAtar, and what they write."""

import csv
from pathlib import Path

import pytest

from experiments.figures import deep_sea_search, minatar_search, rainbow
from experiments.figures.runs import Runs
from re3_jax.runs.build import prepared
from re3_jax.runs.config import flatten
from tests.cli.written_runs import finish


@pytest.mark.parametrize(
    ("search", "name", "number"),
    [
        *((deep_sea_search, name, 9) for name in deep_sea_search.GRIDS),
        *((minatar_search, name, 6) for name in minatar_search.GRIDS),
    ],
)
def test_every_row_has_as_many_settings_of_options_of_its_run(search, name, number, tmp_path):
    grid = search.GRIDS[name]
    assert len(grid.settings()) == number
    for setting in grid.settings():
        run = grid.run_of(setting)
        config = flatten(prepared(Runs(tmp_path).config(run))[0])
        for option, value in setting.items():
            assert config[option.replace("-", "_")] == value
        assert config["re3.first_neighbour"] == config["re3.last_neighbour"]
        shown = [row.run for _, rows in rainbow.PANELS.values() for row in rows]
        for other in (other for other in shown if other.task == run.task):
            of_figure = range(other.seed, other.seed + other.seeds)
            assert set(range(run.seed, run.seed + run.seeds)).isdisjoint(of_figure)


def test_the_table_says_how_many_seeds_learned(monkeypatch, tmp_path, capsys):
    asked = []

    def ensure(runs, run):
        asked.append(run)
        best = run.changes["rainbow.noise"] == "0.5"
        return finish(runs, run, {0: 0.0, run.steps: 0.99 if best else 0.0})

    monkeypatch.setattr(Runs, "ensure", ensure)
    words = ["--rows", "noisy", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert deep_sea_search.main(words) == 0
    assert {(run.seed, run.seeds, run.changes["rainbow.noisy"]) for run in asked} == {
        (101, 3, True)
    }
    with (tmp_path / "out" / "table.csv").open() as lines:
        learned = {row["setting"]: row["learned"] for row in csv.DictReader(lines)}
    assert [setting for setting, seeds in learned.items() if seeds == "3"] == [
        f"rainbow.noise 0.5; rainbow.n-steps {n}" for n in (1, 3, 7)
    ]
    assert list(learned.values()).count("0") == 6
    asked.clear()
    assert deep_sea_search.main([*words, "--state"]) == 0
    assert asked == [] and capsys.readouterr().out.endswith(
        "9 of 9 runs done, 0 begun, 0 waiting, about 0.0 hours to go\n"
    )


def test_the_figure_has_the_best_settings_that_were_found(tmp_path):
    with Path("results/deep_sea_search/table.csv").open() as lines:
        table = [*csv.DictReader(lines)]
    best = max((row for row in table if row["row"] == "re3"), key=area_of)
    config = flatten(Runs(tmp_path).config(rainbow.DEEP_SEA["re3"]))
    for option, value in (pair.split() for pair in best["setting"].split("; ")):
        assert config[option.replace("-", "_")] == float(value)
    # Without a bonus no setting is better than another, and the presets stay.
    assert {row["learned"] for row in table if row["row"] != "re3"} == {"0"}


def area_of(row):
    return float(row["area_under_curve"])


def test_the_table_has_means_of_diagnostics_where_there_is_a_bonus(monkeypatch, tmp_path):
    def ensure(runs, run):
        folder = finish(runs, run, {0: 0.0, run.steps: 1.0, 2 * run.steps: 9.0})
        columns = "seed", "env_frames", *minatar_search.DIAGNOSTICS
        lines = [
            f"{seed},{frames},{share},{0.1 * seed},{2.0 if frames == 10 else ''}"
            for seed, frames, share in ((101, 10, 1.0), (101, 20, 0.5), (102, 10, 0.0))
        ]
        # The run has gone on.
        lines.append(f"101,{2 * run.steps},99.0,99.0,99.0")
        (folder / "train.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
        return folder

    monkeypatch.setattr(Runs, "ensure", ensure)
    words = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert minatar_search.main(words) == 0
    with (tmp_path / "out" / "table.csv").open() as lines:
        rows = [*csv.DictReader(lines)]
    assert [row["row"] for row in rows] == 6 * ["none"] + 6 * ["re3"]
    assert {row["final_return_mean"] for row in rows} == {"1"}
    assert {(row["duplicate_share"], row["reward_mean"]) for row in rows[:6]} == {("", "")}
    for row in rows[6:]:
        assert float(row["duplicate_share"]) == pytest.approx(0.5)
        assert float(row["reward_mean"]) == 2.0
        assert float(row["intrinsic_reward_mean"]) == pytest.approx(101.3333 / 10, rel=1e-5)
