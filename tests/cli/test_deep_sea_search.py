"""The search of Rainbow's settings on DeepSea, and what it writes."""

import csv
from pathlib import Path

import pytest

from experiments.figures import deep_sea_search, rainbow
from experiments.figures.deep_sea_search import GRIDS, settings
from experiments.figures.runs import Runs
from re3_jax.runs.build import prepared
from re3_jax.runs.config import flatten
from tests.cli.written_runs import finish


@pytest.mark.parametrize("name", GRIDS)
def test_every_row_has_nine_settings_of_options_of_its_run(name, tmp_path):
    assert len(settings(name)) == 9
    for setting in settings(name):
        run = deep_sea_search.run(name, setting)
        config = flatten(prepared(Runs(tmp_path).config(run))[0])
        for option, value in setting.items():
            assert config[option.replace("-", "_")] == value
        assert config["re3.first_neighbour"] == config["re3.last_neighbour"]
        assert set(range(run.seed, run.seed + run.seeds)).isdisjoint(
            range(rainbow.DEEP_SEA[name].seed, rainbow.DEEP_SEA[name].seed + 10)
        )


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
