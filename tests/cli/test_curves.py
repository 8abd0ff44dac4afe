"""Figures and tables from eval.csv files written by hand."""

import csv

import numpy as np
import pytest

from experiments.errors import UsageError
from experiments.figures import curves

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
    assert curves.main([f"A={runs / 'a'}", f"B={runs / 'b'}", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    with out.with_suffix(".csv").open() as lines:
        first, second = csv.DictReader(lines)
    assert (first["label"], first["seeds"], first["env_frames"]) == ("A", "2", "300")
    assert float(first["final_return_mean"]) == pytest.approx(0.9)
    # Student's t with one degree of freedom: 12.706 times the standard error of 0.1.
    assert float(first["final_return_mean_high"]) == pytest.approx(0.9 + 1.2706, abs=1e-3)
    # Trapezoids under 0, 0.6, 0.9: (30 + 150) / 300.
    assert float(first["area_under_curve"]) == pytest.approx(0.6)
    assert second["final_return_iqm_low"] == second["final_return_iqm_high"] == "0.6"


def test_runs_without_a_common_frame(runs):
    (runs / "b" / "eval.csv").write_text("seed,env_frames,return_mean\n1,7,0\n")
    with pytest.raises(UsageError, match="no evaluated frame in common"):
        curves.load("both", [runs / "a", runs / "b"])
