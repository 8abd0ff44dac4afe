"""The ablations of the bonus on MiniGrid, from made-up runs."""

import csv

import pytest

from experiments.figures import minigrid_ablations
from experiments.figures.minigrid import VARIANTS
from experiments.figures.minigrid_ablations import DEFAULT, GROUPS
from experiments.figures.runs import Runs
from re3_jax.runs.config import flatten
from re3_jax.runs.option_names import option_with
from re3_jax.runs.options import parse

CHANGES = [(group, change) for group, (_, changes) in GROUPS.items() for change in changes.items()]


@pytest.fixture
def asked(monkeypatch):
    """The requested runs; the n-th ends with a return of n / 100, the default with 0.05."""
    asked = []

    def ensure(runs, run):
        asked.append(run)
        folder = runs.folder / str(len(asked))
        folder.mkdir(parents=True)
        final = 0.05 if run == DEFAULT.run._replace(seeds=2, steps=100) else len(asked) / 100
        rows = [f"{seed},{frames},{y}" for seed in (1, 2) for frames, y in ((0, 0), (100, final))]
        (folder / "eval.csv").write_text("\n".join(["seed,env_frames,return_mean", *rows, ""]))
        return folder

    monkeypatch.setattr(Runs, "ensure", ensure)
    return asked


def test_every_row_is_compared_with_the_default(asked, tmp_path):
    out = tmp_path / "out"
    words = ["--seeds", "2", "--steps", "100", "--runs", str(tmp_path / "runs"), "--out", str(out)]
    assert minigrid_ablations.main([*words, "--groups", "neighbours", "ensemble"]) == 0
    assert len(asked) == 1 + 5 + 1
    with (out / "table.csv").open() as lines:
        table = list(csv.DictReader(lines))
    found = [(row["group"], row["label"], row["better_than_recommended"]) for row in table]
    assert found == [
        ("", "recommended", ""),
        *(("neighbours", f"k = {k}", better) for k, better in zip((1, 3, 5), "000", strict=True)),
        ("neighbours", "k = 7", "0.5"),
        ("neighbours", "k = 9", "1"),
        ("ensemble", "5", "1"),
    ]
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len({path.name for path in out.glob("*.csv")}) == 1 + len(asked)


@pytest.mark.parametrize(("group", "change"), CHANGES)
def test_every_row_changes_one_option_of_recommended(group, change):
    _, changes = change
    words = ["--env", "doorkey_6x6"]
    default = flatten(parse(words))
    for option, value in changes.items():
        words += option_with(option, value).split()
    changed = flatten(parse(words))
    assert sum(changed[name] != default[name] for name in changed) == 1


def test_the_default_is_the_run_of_the_main_figure():
    assert VARIANTS["re3"].run("doorkey_6x6", "recommended") == DEFAULT.run


@pytest.mark.parametrize("k", [1, 3, 5, 7, 9])
def test_k_counts_other_states(k):
    """Rank 1 is the state itself: `recommended` averages the ranks from 1."""
    default = parse(["--env", "doorkey_6x6"]).re3
    assert default.count_self and default.first_neighbour == 1
    change = GROUPS["neighbours"].changes[f"k = {k}"]
    assert change == {"re3.last-neighbour": str(k + 1)}
