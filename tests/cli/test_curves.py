"""Figures and tables from eval.csv files written by hand."""

import csv
from functools import partial

import numpy as np
import pytest

from experiments.figures.curves import main
from re3_jax.runs import curves
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError

ROWS = {
    "a": [(1, 0, 0.0), (2, 0, 0.0), (1, 100, 0.5), (2, 100, 0.7), (1, 300, 1.0), (2, 300, 0.8)],
    "b": [(1, 0, 0.2), (1, 100, 0.4), (1, 200, 0.5), (1, 300, 0.6)],
}


@pytest.fixture
def runs(tmp_path):
    for name, rows in ROWS.items():
        (tmp_path / name).mkdir()
        with (tmp_path / name / "eval.csv").open("w") as out:
            out.write("seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean\n")
            out.writelines(f"{s},{f},1.0,4,{r},0,9\n" for s, f, r in rows)
    return tmp_path


def test_runs_of_one_label_are_pooled_where_all_were_evaluated(runs):
    curve = curves.load("both", [runs / "a", runs / "b"])
    assert curve.env_frames.tolist() == [0, 100, 300]
    np.testing.assert_allclose(curve.returns, [[0, 0.5, 1.0], [0, 0.7, 0.8], [0.2, 0.4, 0.6]])


def test_command_writes_picture_and_table(runs, capsys):
    out = runs / "figures" / "f.png"
    assert main([f"A={runs / 'a'}", f"B={runs / 'b'}", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    with out.with_suffix(".csv").open() as lines:
        first, second = csv.DictReader(lines)
    assert (first["label"], first["seeds"], first["env_frames"]) == ("A", "2", "300")
    assert float(first["final_return_mean"]) == pytest.approx(0.9)
    # Student's t with one degree of freedom: 12.706 times the standard error of 0.1.
    assert float(first["final_return_mean_high"]) == pytest.approx(0.9 + 1.2706, abs=1e-3)
    # Trapezoids under 0, 0.6, 0.9: (30 + 150) / 300.
    assert float(first["area_under_curve"]) == pytest.approx(0.6)
    # One seed has no interval.
    assert (second["final_return_iqm"], second["final_return_iqm_low"]) == ("0.6", "")


def test_a_seed_that_would_count_twice_is_refused(runs, capsys):
    words = [f"A={runs / 'a'}", f"A={runs / 'b'}", "--out", str(runs / "f.png")]
    assert main(words) == 2
    assert "both hold seed 1 of A: leave one out" in capsys.readouterr().err


@pytest.mark.parametrize("cut", ["2,400,1.0,4,0.9", "2,400", "2,400,1.0,4,"])
def test_a_line_that_was_cut_is_no_result(runs, cut):
    """As a full disk leaves it: the number may have lost digits."""
    with (runs / "a" / "eval.csv").open("a") as out:
        out.write(cut)
    assert curves.load("a", [runs / "a"]).env_frames.tolist() == [0, 100, 300]


def test_a_line_with_too_few_cells_is_refused(runs):
    with (runs / "a" / "eval.csv").open("a") as out:
        out.write("2,400,1.0\n")
    with pytest.raises(UsageError, match="has a damaged line: restore it from a copy"):
        curves.load("a", [runs / "a"])


@pytest.mark.parametrize("cells", ['"' + 140_000 * "x", f"2,{10**20},1.0,4,0.9,0,9"])
def test_a_line_that_a_flipped_bit_made_is_refused(runs, cells):
    """An open quote swallows the rest of the file; a number may be too large for an array."""
    with (runs / "a" / "eval.csv").open("a") as out:
        out.write(f"{cells}\n")
    with pytest.raises(UsageError, match="has a damaged line"):
        curves.load("a", [runs / "a"])


def test_a_quotation_mark_that_a_flipped_bit_made_swallows_no_line(runs):
    """The 2 of a length became one."""
    table, whole = runs / "a" / "eval.csv", curves.load("a", [runs / "a"])
    table.write_text(table.read_text().replace(",0,9\n", ',0,"9\n', 1))
    found = curves.load("a", [runs / "a"])
    np.testing.assert_array_equal(found.env_frames, whole.env_frames)
    np.testing.assert_array_equal(found.returns, whole.returns)


def test_a_dollar_sign_in_a_label_is_no_formula(runs):
    out = runs / "f.png"
    assert main([rf"a$\foo$={runs / 'a'}", "--out", str(out), "--title", r"$\bar$"]) == 0


def test_a_picture_beside_the_tables_of_a_run_is_refused(runs, capsys):
    """Its own table would replace them."""
    (runs / "a" / "config.json").write_text("{}")
    before = (runs / "a" / "eval.csv").read_text()
    assert main([f"A={runs / 'b'}", "--out", str(runs / "a" / "eval.png")]) == 2
    assert "is in the folder of a run, whose tables have such names" in capsys.readouterr().err
    assert (runs / "a" / "eval.csv").read_text() == before


def test_a_picture_of_no_known_kind_is_refused(runs, capsys):
    assert main([f"A={runs / 'a'}", "--out", str(runs / "f.foo")]) == 2
    assert "f.foo is no picture: end its name in .png" in capsys.readouterr().err
    assert not (runs / "f.csv").exists()


def test_frames_of_pretraining_are_in_the_area_and_in_no_comparison():
    plain = Curve("A2C", np.array([0, 200, 400]), np.array([[0, 0.5, 0.6], [0, 0.7, 0.8]]))
    tuned = Curve("PT", np.array([100, 300, 402]), np.array([[0, 0.9, 0.7], [0, 0.9, 0.9]]))
    # Trapezoids of 90 and 86.7 over 402 frames, the first 100 with nothing above them.
    assert curves.area(tuned) == pytest.approx((90 + 0.85 * 102) / 402)
    # 402 is the frame nearest to 400: of the pairs 0.7 and 0.9 with 0.6 and 0.8, one is lost.
    assert curves.improvement(tuned, plain)[0] == "0.75"
    longer = tuned._replace(env_frames=np.array([100, 390, 600]))
    assert curves.improvement(longer, plain)[0] == "1"
    # Up to 400, both areas, 0.43 and 0.45, are larger than one of 0.4 and 0.55.
    assert curves.improvement(tuned, plain)[4] == "0.5"


def test_an_area_over_no_frames_is_the_height_there():
    begun = Curve("begun", np.array([0]), np.array([[0.5], [0.25]]))
    assert curves.areas(begun, 0).tolist() == [0.5, 0.25]


def test_a_curve_has_the_colour_of_its_label_in_every_panel():
    flat = np.zeros((1, 2))
    panels = {"x": [Curve("a", np.arange(2), flat), Curve("b", np.arange(2), flat)]}
    panels["y"] = panels["x"][1:]
    draw = partial(curves.draw_axes, labels=["a", "b"])
    first, second = curves.draw_panels(panels, (1, 1), 2, panel=draw).axes
    (colour,) = [line.get_color() for line in second.get_lines()]
    assert colour == first.get_lines()[1].get_color() == curves.COLOURS[1]


@pytest.mark.parametrize(
    ("panels", "expected"), [(2, (1, 2)), (4, (2, 2)), (5, (2, 3)), (7, (3, 3))]
)
def test_rows_of_panels_are_of_one_length(panels, expected):
    curve = Curve("", np.arange(2), np.zeros((1, 2)))
    picture = curves.draw_panels({str(n): [curve] for n in range(panels)}, (1, 1), across=3)
    assert picture.axes[0].get_gridspec().get_geometry() == expected


def test_runs_without_a_common_frame(runs):
    (runs / "b" / "eval.csv").write_text("seed,env_frames,return_mean\n1,70000000,0\n")
    with pytest.raises(UsageError, match="not evaluated over the same env frames"):
        curves.load("both", [runs / "a", runs / "b"])


@pytest.mark.parametrize("whole", [True, False])
def test_a_diverged_seed_is_drawn_as_far_as_it_is_a_number(whole):
    returns = np.array([[1.0, 3.0, np.nan], [np.nan if whole else 2.0, np.nan, np.inf]])
    (axes,) = curves.draw_panels({"": [Curve("", np.arange(3), returns)]}, (2, 2), 1).axes
    low, high = axes.get_ylim()
    assert (low, high) == pytest.approx((0.9, 3.1))
    assert curves.draw_panels({"": [Curve("", np.arange(3), returns * np.nan)]}, (2, 2), 1).axes
