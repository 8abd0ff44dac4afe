"""`python -m experiments.compare` on run folders written by hand."""

import csv
import json
import shlex
import shutil

import numpy as np
import pytest
import scipy.stats

from re3_jax.commands.compare import main
from re3_jax.runs.comparison import notes, panels_of, rows_of, table
from re3_jax.runs.curves import at
from re3_jax.runs.given_files import DIGESTS, WEIGHTS
from re3_jax.runs.run_folder import CONFIG, CONFIG_DIGEST
from re3_jax.runs.statistics import bootstrap_interval, interquartile_mean
from tests.cli.written_runs import write_run

RNG = np.random.default_rng(0)
FINALS = {"none": RNG.normal(0.3, 0.2, size=6), "re3": RNG.normal(0.6, 0.2, size=4)}


@pytest.fixture
def folders(tmp_path):
    """A2C in one run; A2C + RE3 in two, the second of which is longer."""
    first, more = FINALS["re3"][:2], 2 * FINALS["re3"][2:]
    return [
        write_run(tmp_path / "none", "none", FINALS["none"]),
        write_run(tmp_path / "re3", finals=first),
        write_run(tmp_path / "more", finals=more, frames=(0, 100, 200, 400, 800), first=3),
    ]


def compare(folders, out, *words):
    return main([*map(str, folders), "--out", str(out), *words])


def table_of(out):
    with (out / "table.csv").open() as lines:
        return list(csv.DictReader(lines))


def test_seeds_are_pooled_and_the_table_has_the_fields_statistics(folders, tmp_path, capsys):
    out = tmp_path / "out"
    assert compare(folders, out) == 0
    assert {path.name for path in out.iterdir()} == {"curves.png", "profiles.png", "table.csv"}
    for name in ("curves.png", "profiles.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    rows = table_of(out)
    assert [(row["task"], row["label"], row["seeds"]) for row in rows] == [
        ("doorkey_6x6", "A2C", "6"),
        ("doorkey_6x6", "A2C + RE3", "4"),
    ]
    for row, finals in zip(rows, FINALS.values(), strict=True):
        assert row["env_frames"] == "400"
        low, high = scipy.stats.t.interval(
            0.95, len(finals) - 1, loc=finals.mean(), scale=scipy.stats.sem(finals)
        )
        names = ("final_return_mean", "final_return_mean_low", "final_return_mean_high")
        expected = pytest.approx([finals.mean(), low, high], rel=1e-5)
        assert [float(row[name]) for name in names] == expected
        iqm = scipy.stats.trim_mean(finals, 0.25)
        assert float(row["final_return_iqm"]) == pytest.approx(iqm, rel=1e-5)
        interval = bootstrap_interval(interquartile_mean, finals)
        names = ("final_return_iqm_low", "final_return_iqm_high")
        assert [float(row[name]) for name in names] == pytest.approx(interval, rel=1e-5)
        # Under a straight line.
        assert float(row["area_under_curve"]) == pytest.approx(finals.mean() / 2, rel=1e-5)
    first, second = rows
    better = [f"better_than_first{end}" for end in ("", "_low", "_high")]
    assert [first[name] for name in better] == ["", "", ""]
    p, low, high = (float(second[name]) for name in better)
    u = scipy.stats.mannwhitneyu(FINALS["re3"], FINALS["none"]).statistic
    assert p == pytest.approx(u / 24, rel=1e-5)
    assert low <= p <= high
    exact = scipy.stats.mannwhitneyu(FINALS["re3"], FINALS["none"], method="exact").pvalue
    assert float(second["better_than_first_p"]) == pytest.approx(exact, rel=1e-5)
    *printed, curves, profiles, table = capsys.readouterr().out.splitlines()
    assert [curves, profiles, table] == [
        str(out / name) for name in ("curves.png", "profiles.png", "table.csv")
    ]
    assert len(printed) == 3 and f"{p:.4g} ({low:.4g} to {high:.4g})" in printed[2]
    assert printed[2].split()[-1] == f"{exact:.2g}"


def test_rows_that_end_at_other_frames_are_named(tmp_path, capsys):
    folders = [
        write_run(tmp_path / "long", "none", [0.3, 0.35], frames=(0, 400, 800)),
        write_run(tmp_path / "short", "re3", [0.2, 0.3], frames=(0, 400)),
    ]
    assert compare(folders, tmp_path / "out") == 0
    note = capsys.readouterr().out.splitlines()[3]
    assert note.startswith("rows of doorkey_6x6 end at 400 to 800 env frames: means")
    comparison_ends = table_of(tmp_path / "out")[1]["better_than_first"]
    # Up to frame 400, where the longer run was half as high as at its end.
    assert float(comparison_ends) == 1.0


def test_all_of_runs_leaves_out_what_figures_put_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, bonus in (("runs/one", "none"), ("runs/two", "re3")):
        write_run(tmp_path / name, bonus)
    for name in ("drawn/dmc", "figures/cell", "compare", "gpu", "profile-doorkey_6x6-a2c"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "report.html").touch()
    every = sorted((tmp_path / "runs").iterdir())
    assert len(every) == 8
    for out in (tmp_path / "runs" / "compare", tmp_path / "elsewhere"):
        assert compare(every, out) == 0
        assert len(table_of(out)) == 2


def test_a_run_that_is_named_counts_wherever_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = [write_run(tmp_path / "runs" / name, b) for name, b in (("gpu", "none"), ("b", "re3"))]
    named.append(write_run(tmp_path / "runs" / "profile-fast", "rnd"))
    assert compare(named, tmp_path / "out") == 0
    assert len(table_of(tmp_path / "out")) == 3


def test_of_a_file_its_contents_count_and_not_its_place(tmp_path):
    def trained(name, path, digest, first):
        folder = write_run(tmp_path / name, "atc", first=first, pretrained={"weights": path})
        whole = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps(whole | {DIGESTS[WEIGHTS]: digest}))
        return folder

    folders = [
        trained("one", "/a/params.pkl", "1" * 64, 1),
        trained("moved", "/b/params.pkl", "1" * 64, 3),
        trained("other", "/a/params.pkl", "2" * 64, 1),
    ]
    rows = rows_of(folders)
    assert [row.folders for row in rows] == [folders[:2], folders[2:]]
    assert [row.curve.label.split()[-2:] for row in rows] == [
        ["params.pkl", f"({digit * 8})"] for digit in "12"
    ]


def test_a_dollar_sign_is_no_formula(tmp_path):
    started = [write_run(tmp_path / name, init=f"runs/${name}_$") for name in ("a", "b")]
    assert compare(started, tmp_path / "out") == 0


def test_rows_are_told_apart_by_what_differs(folders, tmp_path):
    folders += [
        write_run(tmp_path / "beta", re3={"beta": 0.2, "latent_dim": 64}),
        write_run(tmp_path / "started", "none", init="runs/before"),
        write_run(tmp_path / "same", env="minigrid:DoorKey-6x6", first=9),
        write_run(tmp_path / "other", env="gymnax:CartPole-v1", preset="debug"),
    ]
    panels = panels_of(rows_of(folders))
    assert {task: [row.label for row in rows] for task, rows in panels.items()} == {
        "doorkey_6x6": [
            "A2C (paper)",
            "A2C + RE3 (paper) --re3.beta 0.1",
            "A2C + RE3 (paper) --re3.beta 0.2",
            "A2C (paper) --init runs/before",
        ],
        "gymnax:CartPole-v1": ["A2C + RE3 (debug)"],
    }
    assert len(panels["doorkey_6x6"][1].returns) == 6
    (said,) = (note for note in notes(table(panels)) if "--init" in note)
    assert said.startswith("rows of doorkey_6x6 with --init go on from another run")


def test_rows_evaluated_at_other_frames_are_linear_between_their_evaluations(tmp_path):
    """As A2C's and PPO's runs are, whose chunks differ."""
    folders = [
        write_run(tmp_path / "one", "none", [1.0, 0.0], frames=(0, 1000, 4000)),
        write_run(tmp_path / "more", "none", [2.0], frames=(0, 500, 3000, 4000), first=3),
        write_run(tmp_path / "other", finals=[0.97, 0.99, 1.5], frames=(0, 1984, 3968)),
    ]
    out = tmp_path / "out"
    assert compare(folders, out) == 0
    none, re3 = rows_of(folders)
    assert none.curve.env_frames.tolist() == [0, 1000, 4000]
    # Straight lines stay straight.
    np.testing.assert_allclose(none.curve.returns, [[0, 0.25, 1], [0, 0, 0], [0, 0.5, 2]])
    # At 3,968 the first row has 0.992, 0 and 1.984: below and above pairs of the other.
    assert float(table_of(out)[1]["better_than_first"]) == pytest.approx(4 / 9, rel=1e-5)
    np.testing.assert_allclose(at(none.curve, 3968), [0.992, 0, 1.984])


def test_a_row_reaches_as_far_as_all_of_its_seeds_in_any_order(tmp_path):
    folders = [
        write_run(tmp_path / "few", finals=[1.0], frames=(0, 5000, 10_000)),
        write_run(tmp_path / "many", finals=[1.0], frames=(0, 2000, 4000, 6000, 8000), first=2),
    ]
    for order in (folders, folders[::-1]):
        (row,) = rows_of(order)
        assert row.curve.env_frames.tolist() == [0, 5000, 8000]
        np.testing.assert_allclose(np.sort(row.curve.returns[:, -1]), [0.8, 1.0])


def test_a_single_seed_is_no_comparison(folders, tmp_path, capsys):
    one = write_run(tmp_path / "one", "rnd", finals=[0.4])
    assert compare([one, folders[1]], tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "one seed is no comparison: train more seeds of A2C + RND on doorkey_6x6" in said
    assert [row["better_than_first"] for row in table_of(tmp_path / "out")] == ["", ""]


def test_only_an_earlier_comparison_is_overwritten(folders, tmp_path, capsys):
    out = tmp_path / "out"
    assert compare(folders[:2], out) == 0
    # As RUNS="runs/*" names it.
    assert compare([*folders, out], out) == 0
    assert table_of(out)[1]["seeds"] == "4"
    (out / "notes.txt").touch()
    assert compare(folders, out) == 2
    assert "files that are not of a comparison (notes.txt): choose" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    shutil.copy(out / "table.csv", tmp_path / "mine" / "table.csv")
    assert compare(folders, tmp_path / "mine") == 2
    assert compare(folders, folders[0]) == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda run: shutil.rmtree(run), "holds no run: give folders with a config.json"),
        (lambda run: (run / CONFIG).write_text('{"config": {"env": "a"}}'), "holds no run"),
        (lambda run: (run / "eval.csv").unlink(), "has no eval.csv: give the folder of a run"),
        (lambda run: (run / "eval.csv").write_text(""), "has no evaluation yet: train it further"),
        (
            lambda run: (run / "eval.csv").write_text("seed,env_frames,return_mean\n1,\n"),
            "has a damaged line: restore it",
        ),
        (
            lambda run: (run / "eval.csv").write_text("seed,env_frames,return_mean\n7,0,0\n"),
            "not evaluated twice over the same env frames: train them further",
        ),
        (
            lambda run: (run / "eval.csv").write_text("seed,env_frames,return_mean\n7,3,0\n"),
            "not evaluated twice over the same env frames: train them further",
        ),
        (
            lambda run: (run / "eval.csv").write_text("seed,env_frames,return_mean\n1,0,0\n"),
            "both hold seed 1 of A2C + RE3: leave one out",
        ),
        (lambda run: (run / CONFIG).write_text("[]"), "holds no run: give folders with a"),
        (
            lambda run: (run / CONFIG).write_text(json.dumps({"config": {}, CONFIG_DIGEST: "0"})),
            "config.json was changed after the run wrote it: restore it from a copy",
        ),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(folders, tmp_path, capsys, change, sentence):
    change(folders[2])
    assert compare(folders, tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and sentence in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [0, 1])
def test_a_comparison_needs_two_runs(folders, tmp_path, capsys, count):
    assert compare(folders[:count], tmp_path / "out") == 2
    assert "error: give two runs or more, as in make compare RUNS=" in capsys.readouterr().err


def test_the_command_for_a_single_run_can_be_pasted(tmp_path, capsys):
    folder = write_run(tmp_path / "my run")
    assert compare([folder], tmp_path / "out") == 2
    (runs,) = shlex.split(capsys.readouterr().err.rpartition("make report RUNS=")[2])
    assert shlex.split(runs) == [str(folder)]
