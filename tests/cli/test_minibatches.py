"""The figure of Dreamer's batches: its measures against published numbers, its table."""

import csv

import numpy as np
import pytest

from experiments.figures import frames, minibatches
from experiments.figures.frames import Frames
from experiments.figures.minibatches import Batch, measure, share_of_variance
from experiments.reproduction import appendix
from experiments.reproduction.entry import Verdict
from experiments.reproduction.results import Results
from re3_jax.runs import curves

EPISODES = np.repeat(np.arange(4), 50)

JUDGED = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], float
)
"""Shrout and Fleiss (1979), Table 2: six targets, four judges. Their ICC(1, 1) is 0.17."""


def test_the_share_of_variance_is_that_of_shrout_and_fleiss():
    assert share_of_variance(JUDGED) == pytest.approx(0.17, abs=0.005)


def test_what_companions_do_not_change_is_due_to_the_frame():
    latents = np.random.default_rng(0).normal(size=(200, 3))
    alone = measure(latents, EPISODES, Batch(sequences=1, length=10, k=3), seed=0)
    assert alone[1:3] == (1.0, 1.0)
    beyond = measure(latents, EPISODES, Batch(sequences=4, length=10, k=11), seed=0)
    assert 0 < beyond.share_of_own_sequence < 0.9


def test_distances_are_those_of_a_search_among_the_batch_and_among_all(monkeypatch):
    """With batches that hold every frame once, both are the same distance."""
    latents = np.random.default_rng(1).normal(size=(200, 3))
    whole = np.arange(200).reshape(20, 10)
    once = [whole[:1], *[whole[1:]] * minibatches.BATCHES]
    drawn = iter([*once * minibatches.SEQUENCES, *[whole] * minibatches.BATCHES])
    monkeypatch.setattr(minibatches, "_draw", lambda *_: next(drawn))
    batch = Batch(sequences=20, length=10, k=4)
    found = measure(latents, EPISODES, batch, seed=0)
    assert found._replace(share_of_own_sequence=0) == pytest.approx((0, 0, 1, 1))


@pytest.fixture
def collected(monkeypatch):
    """Seeds whose frames were collected; they are noise."""
    asked = []

    def collect(task, config, num_frames, seed):
        asked.append(seed)
        images = np.random.default_rng(seed).integers(0, 256, (num_frames, 64, 64, 3), np.uint8)
        return Frames(images, np.zeros((num_frames, 1)), np.repeat(np.arange(2), num_frames // 2))

    monkeypatch.setattr(frames, "collect", collect)
    monkeypatch.setattr(minibatches, "SEQUENCES", 2)
    monkeypatch.setattr(minibatches, "BATCHES", 2)
    return asked


def test_the_table_has_a_row_for_each_batch_and_goes_on_with_the_next_seed(collected, tmp_path):
    words = "--tasks", "hopper_hop", "--frames", "2000"
    folders = "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)
    for seeds in ("1", "2"):
        assert minibatches.main([*words, *folders, "--seeds", seeds]) == 0
        with (tmp_path / "table.csv").open() as lines:
            rows = list(csv.DictReader(lines))
        assert all((row["rank_correlation_low"] == "") == (seeds == "1") for row in rows)
    assert collected == [1, 2]
    assert [(row["sequences"], row["length"], row["k"]) for row in rows] == [
        ("50", "50", "4"),
        ("50", "50", "53"),
        ("16", "32", "4"),
        ("16", "32", "35"),
    ]


def test_frames_are_of_whole_episodes(capsys, tmp_path):
    assert minibatches.main(["--frames", "700", "--out", str(tmp_path)]) == 2
    assert "--frames is 700: give a multiple of 500" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "own", "stable"),
    [
        # k 53: deviation of the mean, share of the own sequence.
        ((0.01, 0.1), Verdict.SMALLER, Verdict.SMALLER),
        ((0.2, 0.1), Verdict.SMALLER, Verdict.NOT_REPRODUCED),
        ((0.01, 0.5), Verdict.NOT_REPRODUCED, Verdict.SMALLER),
    ],
)
def test_the_page_judges_the_papers_batch(tmp_path, values, own, stable):
    measures = *values, 0.9, 0.9
    cells = [f"{each + by}" for each in measures for by in (0, -0.005, 0.005)]
    of_four = [f"{each + by}" for each in (0.01, 0.5, 0.7, 0.8) for by in (0, -0.005, 0.005)]
    columns = [f"{name}{end}" for name in minibatches.MEASURES for end in ("", "_low", "_high")]
    path = tmp_path / appendix.MINIBATCHES
    path.parent.mkdir(parents=True)
    header = "task", "sequences", "length", "k", "stored", "seeds", *columns
    of_task = [("50", "50", "4", of_four), ("50", "50", "53", cells), ("16", "32", "35", of_four)]
    rows = [["hopper_hop", *batch, 10_000, 5, *numbers] for *batch, numbers in of_task]
    curves.write_csv(path, header, rows)
    entries = {entry.statement: entry for entry in appendix.CONTROL}
    found = [
        entry.find(Results(tmp_path))
        for statement, entry in entries.items()
        if "batch" in statement and entry.command == "make figure FIG=minibatches"
    ]
    assert [finding.verdict for finding in found] == [own, stable]
    assert "hopper_hop" in found[0].result and "5 seeds" in found[0].ran
