"""The figure of nearest neighbours: its table over seeds, its pictures, and how it goes on."""

import csv

import numpy as np
import pytest
from scipy import stats

from experiments.figures import agreement, frames, neighbours, similarity
from experiments.figures.frames import Frames
from re3_jax.runs import side_by_side

EPISODES = np.repeat(np.arange(2), frames.FRAMES_PER_EPISODE)


def made_up(_task="", _renderer="", num_frames=200, seed=0):
    """Frames that show their state: a bright spot at that place."""
    random = np.random.default_rng(seed)
    states = random.integers(0, 24, (num_frames, 2))
    images = random.integers(0, 20, (num_frames, 24, 24, 3)).astype(np.uint8)
    for image, (row, column) in zip(images, states, strict=True):
        image[row, column] = 255
    return Frames(images, states.astype(float), EPISODES)


@pytest.fixture
def collected(monkeypatch):
    """(task, seed) of the frames that were collected; they are made up."""
    asked = []

    def collect(task, renderer, num_frames, seed):
        asked.append((task, seed))
        return made_up(num_frames=num_frames, seed=seed)

    monkeypatch.setattr(frames, "collect", collect)
    return asked


def run(folder, *words):
    words = "--frames", "200", "--out", str(folder / "out"), "--runs", str(folder / "runs"), *words
    assert neighbours.main(words) == 0
    with (folder / "out/table.csv").open() as lines:
        return list(csv.DictReader(lines))


def test_the_table_has_students_interval_over_seeds_and_paired_gains(collected, tmp_path):
    rows = run(tmp_path, "--tasks", "hopper_hop", "cheetah_run", "--seeds", "3")
    assert len(rows) == 3 * 2 * len(agreement.KS)
    assert {row["task"] for row in rows} == {"hopper_hop", "cheetah_run", agreement.ALL_TASKS}
    assert (tmp_path / "out/hopper_hop.png").exists() and (
        tmp_path / "out/cheetah_run.png"
    ).exists()
    recalls = []
    for seed in (1, 2, 3):
        found = made_up(seed=seed)
        true = agreement.of_true_states(found)
        recalls.append(
            [
                similarity.recall(similarity.nearest(d, EPISODES), true, 3)
                for _, _, (d,), _ in neighbours.measure(found, seed)
            ]
        )
    encoder, pixels = np.array(recalls).T
    (row,) = (
        row
        for row in rows
        if (row["task"], row["representation"], row["k"]) == ("hopper_hop", "raw pixels", "3")
    )
    for column, values in (
        ("recall", pixels),
        ("recall_minus_random_encoder", pixels - encoder),
    ):
        low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
        written = [float(row[f"{column}{end}"]) for end in ("", "_low", "_high")]
        np.testing.assert_allclose(written, [values.mean(), low, high], atol=6e-5)
    assert float(row["recall_chance"]) == 0.03


def test_one_seed_has_no_interval_and_further_seeds_go_on(collected, tmp_path):
    rows = run(tmp_path, "--tasks", "hopper_hop", "--seeds", "1")
    assert {row["recall_low"] for row in rows} == {""}
    # The first for the scores, the second for the picture.
    assert collected == [("hopper_hop", 1)] * 2
    collected.clear()
    again = run(tmp_path, "--tasks", "hopper_hop", "--seeds", "2")
    assert collected == [("hopper_hop", 2), ("hopper_hop", 1)]
    assert {row["seeds"] for row in again} == {"2"}


def test_each_frame_is_in_its_row_and_part():
    images = made_up().images
    parts = {"frame": images[[[0], [17]]], "near": images[[[5, 6, 7], [8, 9, 10]]]}
    figure = side_by_side.draw(parts, ["first", "second"])
    shown = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    np.testing.assert_array_equal(shown, images[[0, 17, 5, 6, 7, 8, 9, 10]])
    names = [axes.get_ylabel() for axes in figure.axes]
    assert names == ["first", "second", *[""] * 6]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--frames", "100"], "at least 109"),
        (["--k", "0"], "--k 0"),
        (["--queries", "0"], "--queries is 0"),
        (["--seeds", "0"], "--seeds is 0"),
        (["--tasks", "hoper_hop"], "hopper_hop"),
        (["--out", "/dev/null/out"], "/dev/null/out"),
    ],
)
def test_bad_input_is_one_sentence(capsys, tmp_path, collected, words, sentence):
    folders = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    assert neighbours.main([*folders, *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and sentence in said and said.count("\n") == 1
    assert not collected and not any(tmp_path.iterdir())
