"""Neighbours and scores of distances between frames, against scikit-learn and chance."""

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from experiments.figures import similarity

EPISODES = np.repeat(np.arange(4), 10)
STATES, LATENTS = np.random.default_rng(0).normal(size=(2, len(EPISODES), 5))


def order(points, episodes=EPISODES):
    return similarity.nearest(pairwise_distances(points), episodes)


def by_scikit_learn(points, frame, k):
    """The k nearest frames of other episodes."""
    others = np.flatnonzero(EPISODES != EPISODES[frame])
    model = NearestNeighbors(n_neighbors=k).fit(points[others])
    return others[model.kneighbors(points[[frame]], return_distance=False)[0]]


def test_nearest_are_those_of_scikit_learn_among_other_episodes():
    found = order(STATES)
    assert found.shape == (40, 30)
    for frame, row in enumerate(found):
        np.testing.assert_array_equal(row, by_scikit_learn(STATES, frame, 30))


def test_every_frame_has_as_many_neighbours_as_the_one_with_fewest():
    assert order(STATES, np.repeat([0, 1], [25, 15])).shape == (40, 15)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_recall_is_the_share_of_scikit_learns_neighbours_in_common(k):
    shares = [
        len(np.intersect1d(*(by_scikit_learn(points, frame, k) for points in (STATES, LATENTS))))
        / k
        for frame in range(40)
    ]
    assert similarity.recall(order(LATENTS), order(STATES), k) == pytest.approx(np.mean(shares))


def test_agreement_reversal_and_chance():
    random = np.random.default_rng(1)
    episodes = np.repeat(np.arange(4), 100)
    true = order(random.normal(size=(400, 5)), episodes)
    assert similarity.recall(true, true, 5) == 1.0
    assert similarity.share_nearer(true, true, 1) == 0.0
    assert similarity.recall(true[:, ::-1], true, 5) == 0.0
    assert similarity.share_nearer(true[:, ::-1], true, 1) == pytest.approx(1, abs=0.01)
    # Independent latents, so that all agreement is chance.
    found = order(random.normal(size=(400, 5)), episodes)
    assert similarity.chance_recall(true, 30) == 0.1
    assert similarity.recall(found, true, 30) == pytest.approx(0.1, abs=0.01)
    assert similarity.share_nearer(found, true, 4) == pytest.approx(0.5, abs=0.05)


def test_distances_of_pixels_are_those_of_scikit_learn_and_exact_for_copies():
    images = np.random.default_rng(2).integers(0, 256, (6, 50, 50, 3)).astype(np.uint8)
    images[3] = images[1]
    found = similarity.of_pixels(images)
    truth = pairwise_distances(images.reshape(6, -1).astype(np.float64), metric="minkowski", p=2)
    np.testing.assert_allclose(found, truth, rtol=1e-12)
    assert found[1, 3] == 0.0
