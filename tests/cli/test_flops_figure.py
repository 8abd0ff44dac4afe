"""The compute figure: its files, at a tiny size."""

import csv
import json

import pytest

from experiments.figures import flops

TINY = ["--presets", "debug", "--rows", "none", "re3", "rnd"]


def test_a_row_per_bonus_and_way_of_counting(tmp_path, capsys):
    assert flops.main([*TINY, "--out", str(tmp_path)]) == 0
    with (tmp_path / "table.csv").open() as lines:
        table = {(row["bonus"], row["counted"]): row for row in csv.DictReader(lines)}
    # The paper does not count RND.
    ways = {("none", flops.PAPERS_RULE), ("re3", flops.PAPERS_RULE)}
    assert table.keys() == ways | {(bonus, "debug") for bonus in ("none", "re3", "rnd")}
    assert float(table["none", "debug"]["times_rad"]) == 1
    assert float(table["re3", "debug"]["share_of_searches"]) > 0
    assert float(table["rnd", "debug"]["operations_of_searches"]) == 0
    assert table["re3", flops.PAPERS_RULE]["stated"] == "7.233e+16"
    calls = json.loads((tmp_path / "counts.json").read_text())["operations_of_one_call"]["debug"]
    assert calls["rnd"]["learn"] > calls["none"]["learn"] > calls["none"]["act"] > 0
    assert (tmp_path / "operations.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("task", ["doorkey_6x6", "montezuma_revenge", "gymnax:Pendulum-v1"])
def test_a_task_without_pixels_for_rad_is_refused(task, tmp_path, capsys):
    assert flops.main(["--task", task, "--out", str(tmp_path / "out")]) == 2
    assert "give a task of DeepMind Control" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
