"""The figure of Dreamer's batches: its measures against published numbers, its table."""

import csv

import numpy as np
import pytest
from scipy import stats
from sklearn.neighbors import NearestNeighbors

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


def test_measures_are_those_of_a_search_by_scikit_learn(monkeypatch):
    """Of two sequences in three batches each, drawn beforehand."""
    monkeypatch.setattr(minibatches, "SEQUENCES", 2)
    monkeypatch.setattr(minibatches, "BATCHES", 3)
    random = np.random.default_rng(1)
    latents = random.normal(size=(200, 3))
    batch = Batch(sequences=5, length=8, k=4)
    own = minibatches._draw(random, EPISODES, 2, 8)
    companions = [minibatches._draw(random, EPISODES, 4, 8) for _ in range(6)]
    whole = [minibatches._draw(random, EPISODES, 5, 8) for _ in range(3)]
    drawn = iter([own[:1], *companions[:3], own[1:], *companions[3:], *whole])
    monkeypatch.setattr(minibatches, "_draw", lambda *_: next(drawn))
    found = measure(latents, EPISODES, batch, seed=0)

    def search(among, of):
        return NearestNeighbors(n_neighbors=4).fit(latents[among]).kneighbors(latents[of])

    cells, shares = [], []
    for number, others in enumerate(companions):
        sequence = own[number // 3]
        distances, places = search(np.append(sequence, others), sequence)
        cells.append(distances[:, 3])
        # Of the four nearest one is the frame itself.
        shares.append(((places < 8).sum(axis=1) - 1) / 3)
    by_batch = np.concatenate([np.transpose(cells[:3]), np.transpose(cells[3:])])
    among_all = search(np.arange(200), own.ravel())[0][:, 3]
    means = [search(each.ravel(), each.ravel())[0][:, 3].mean() for each in whole]
    ranks = [stats.rankdata(each) for each in (among_all, *by_batch.T)]
    assert found == pytest.approx(
        (
            np.std(means, ddof=1) / np.mean(means),
            np.mean(shares),
            share_of_variance(by_batch),
            np.mean([np.corrcoef(ranks[0], each)[0, 1] for each in ranks[1:]]),
        )
    )
    assert found.deviation_of_mean > 0 and found.rank_correlation < 1


def test_sequences_are_of_one_episode_and_never_its_last():
    drawn = minibatches._draw(np.random.default_rng(0), EPISODES, 2_000, 8)
    assert (np.diff(drawn, axis=1) == 1).all()
    assert (EPISODES[drawn] == EPISODES[drawn[:, :1]]).all()
    # An episode of 50 frames has starts from 0 to 42, and 42 is not drawn.
    assert set(drawn[:, 0] % 50) == set(range(42))
    assert set(EPISODES[drawn[:, 0]]) == set(range(4))


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
        ("16", "16", "4"),
        ("16", "16", "18"),
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--frames", "700"), "--frames is 700: give a multiple of 500"),
        (("--tasks", "hopper_hop", "hopper_hip"), "hopper_hip"),
    ],
)
def test_bad_words_end_before_anything_is_measured(collected, capsys, tmp_path, words, sentence):
    folders = "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)
    assert minibatches.main([*words, *folders]) == 2
    assert sentence in capsys.readouterr().err
    assert not collected and not (tmp_path / "runs").exists()


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
