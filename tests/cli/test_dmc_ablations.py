"""The ablations of the bonus from pixels, from made-up runs."""

import csv

import pytest

from experiments.figures import dmc, dmc_ablations
from experiments.figures.dmc_ablations import FIRST_SEED, GROUPS, RUN
from experiments.figures.runs import Runs
from re3_jax.runs.config import flatten
from re3_jax.runs.option_names import option_with
from re3_jax.runs.options import parse
from tests.cli.written_runs import finish

EVERY = [(group, value) for group in GROUPS for value in GROUPS[group].changes]


@pytest.mark.parametrize(("group", "value"), EVERY)
def test_every_row_changes_one_thing(group, value):
    words = ["--env", RUN.task, "--preset", RUN.preset, "--agent", RUN.agent]
    default = flatten(parse(words))
    for option, given in GROUPS[group].changes[value].items():
        words += option_with(option, given).split()
    changed = flatten(parse(words))
    names = {name for name in changed if changed[name] != default[name]}
    # The k-th alone is its rank from and to.
    assert names == {"re3.first_neighbour", "re3.last_neighbour"} or len(names) == 1


def test_the_row_without_a_change_is_a_run_of_the_main_figure(tmp_path):
    words = ["--preset", "small", "--tasks", RUN.task, "--first-seed", str(FIRST_SEED)]
    runs = Runs(tmp_path)
    for seed in range(FIRST_SEED, FIRST_SEED + 4):
        finish(runs, RUN._replace(seed=seed), {0: 0.0, 250_000: 800.0})
    given = ["--bonuses", "re3", "--seeds", "4", "--steps", "250000"]
    places = ["--runs", str(tmp_path), "--out", str(tmp_path / "out")]
    # It would train what it does not find.
    assert dmc.main([*words, *given, *places]) == 0


def test_rows_are_compared_with_the_one_without_a_change(tmp_path):
    runs = Runs(tmp_path / "runs")
    for seed in (2, 3):
        finish(runs, RUN._replace(seed=seed), {0: 0.0, 75_000: 800.0 + seed, 250_000: 0.0})
        for k, height in ((1, 100.0), (9, 900.0)):
            change = GROUPS["neighbours"].changes[f"k = {k}"]
            run = RUN._replace(seed=seed, changes=change)
            finish(runs, run, {0: 0.0, 75_000: height})
    out = tmp_path / "out"
    words = ["--finished", "--seeds", "2", "--runs", str(runs.folder), "--out", str(out)]
    assert dmc_ablations.main(words) == 0
    with (out / "table.csv").open() as lines:
        table = list(csv.DictReader(lines))
    found = [
        (row["group"], row["label"], row["seeds"], row["env_frames"], row["larger_area_than_small"])
        for row in table
    ]
    assert found == [
        ("", "small", "2", "75000", ""),
        ("neighbours", "k = 1", "2", "75000", "0"),
        ("neighbours", "k = 9", "2", "75000", "1"),
    ]
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(out.glob("*-seed_*.csv"))) == 6
