"""The figure of nearest neighbours: which frames are drawn side by side."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from experiments.figures import neighbours


def made_up(num_frames=40, dim=5):
    random = np.random.default_rng(0)
    points = random.normal(size=(num_frames, dim))
    episodes = np.repeat(np.arange(4), num_frames // 4)
    images = random.integers(0, 255, (num_frames, 24, 24, 3), np.uint8)
    return neighbours.Frames(images, points, episodes)


def test_nearest_are_those_of_scikit_learn_among_other_episodes():
    frames = made_up()
    queries = np.array([0, 17, 39])
    found = neighbours.nearest(frames.states, frames.episodes, queries)
    assert found.shape == (3, 30)
    for query, row in zip(queries, found, strict=True):
        others = np.flatnonzero(frames.episodes != frames.episodes[query])
        model = NearestNeighbors(n_neighbors=30).fit(frames.states[others])
        order = model.kneighbors(frames.states[[query]], return_distance=False)[0]
        np.testing.assert_array_equal(row, others[order])


def test_share_nearer_is_0_in_agreement_and_a_half_by_chance():
    frames = made_up(400)
    queries = np.arange(0, 400, 4)
    true = neighbours.nearest(frames.states, frames.episodes, queries)
    assert neighbours.share_nearer(true, true, 1) == 0.0
    shuffled = np.random.default_rng(1).permuted(true, axis=1)
    assert neighbours.share_nearer(shuffled, true, 4) == pytest.approx(0.5, abs=0.05)
    assert neighbours.share_nearer(true[:, ::-1], true, 1) == pytest.approx(1, abs=0.01)


def test_each_query_is_beside_its_neighbours():
    frames = made_up()
    queries = np.array([0, 17])
    encoded = neighbours.nearest(frames.states, frames.episodes, queries)
    true = encoded[:, ::-1]
    figure = neighbours.draw(frames, queries, encoded, true, k=3)
    shown = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    # Part by part, each row by row.
    expected = np.concatenate([queries, encoded[:, :3].ravel(), true[:, :3].ravel()])
    assert len(shown) == 14
    for image, frame in zip(shown, expected, strict=True):
        np.testing.assert_array_equal(image, frames.images[frame])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--frames", "100"], "more than one episode of 100 frames"),
        (["--k", "0"], "--k 0"),
        (["--task", "hoper_hop"], "hopper_hop"),
    ],
)
def test_bad_input_is_one_sentence(capsys, tmp_path, words, sentence):
    assert neighbours.main([*words, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and sentence in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()
