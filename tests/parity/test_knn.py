"""k-NN against scikit-learn's brute force and SciPy's pairwise differences, both in float64."""

from functools import partial

import jax
import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from re3_jax import knn
from re3_jax.replay import latent_ring
from tests.torch_oracle import neighbours

nearest = jax.jit(knn.nearest_distances, static_argnames="k")
kth = jax.jit(knn.kth_distance, static_argnames="k")
mean = jax.jit(knn.mean_distance, static_argnames=("k", "first"))

# rows written, capacity, latent dimension, queries, k
SIZES = {
    "ring of one row": (1, 1, 3, 2, 1),
    "one row written": (1, 40, 3, 2, 4),
    "fewer rows than k": (3, 64, 5, 6, 8),
    "k is the capacity": (12, 12, 4, 5, 12),
    "full ring in one product": (700, 700, 16, 30, 3),
    "a prime number of rows": (1999, 1999, 7, 17, 4),
    "part-filled, in blocks": (2100, 9973, 20, 33, 5),
    "too large for one product": (9000, 9001, 12, 300, 3),
    "several tiles of queries": (300, 301, 6, 1031, 2),
    "many neighbours": (800, 800, 50, 40, 53),
}


@partial(jax.jit, static_argnums=1)
def filled(latents, capacity):
    return latent_ring.add(latent_ring.init(capacity, latents.shape[1]), latents)[0]


def stored_queries(name):
    """A slowly drifting walk, like the frames of an episode, and rows of it as queries."""
    rows, capacity, dim, num_queries, k = SIZES[name]
    rng = np.random.default_rng(len(name))
    latents = np.tanh(np.cumsum(0.05 * rng.normal(size=(rows, dim)), axis=0)).astype(np.float32)
    return latents, rng.integers(0, rows, num_queries).astype(np.int32), filled(latents, capacity)


@pytest.mark.parametrize("name", SIZES)
def test_all_rows_equal_scikit_learn(name):
    rows, _, _, _, k = SIZES[name]
    latents, own_row, ring = stored_queries(name)
    queries = latents[own_row]
    available = min(k, rows)
    search = NearestNeighbors(algorithm="brute").fit(latents.astype(np.float64))
    truth, _ = search.kneighbors(queries.astype(np.float64), available)

    found = np.asarray(nearest(queries, ring, k=k))
    # scikit-learn expands the square: it leaves up to 1e-7 where the distance is 0.
    np.testing.assert_allclose(found[:, :available], truth, rtol=2e-6, atol=2e-7)
    np.testing.assert_array_equal(found[:, 0], 0.0)
    furthest = np.broadcast_to(found[:, [available - 1]], (len(found), k - available))
    np.testing.assert_array_equal(found[:, available:], furthest)
    np.testing.assert_array_equal(kth(queries, ring, k=k), found[:, -1])
    first = max(1, k // 2)
    expected = truth[:, min(first, available) - 1 :].mean(axis=1)
    averaged = mean(queries, ring, k=k, first=first)
    np.testing.assert_allclose(averaged, expected, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", SIZES)
def test_other_rows_equal_pairwise_differences(name):
    rows, _, _, _, k = SIZES[name]
    latents, own_row, ring = stored_queries(name)
    queries = latents[own_row]
    truth = cdist(queries.astype(np.float64), latents.astype(np.float64))
    truth[np.arange(len(queries)), own_row] = np.inf
    available = min(k, rows - 1)

    found = np.asarray(nearest(queries, ring, k=k, exclude=own_row))
    np.testing.assert_allclose(
        found[:, :available], np.sort(truth, axis=1)[:, :available], rtol=2e-6
    )
    furthest = found[:, [available - 1]] if available else np.zeros((len(queries), 1))
    np.testing.assert_array_equal(
        found[:, available:], np.broadcast_to(furthest, (len(queries), k - available))
    )


def duplicates(rng):
    """Few distinct states, each seen many times, as in MiniGrid."""
    return rng.normal(size=(60, 64))[rng.integers(0, 60, 3000)]


def mostly_duplicates(rng):
    """Copies of one state in most groups, and single states between them."""
    latents = rng.normal(size=(3000, 64))
    latents[rng.random(3000) < 0.9] = latents[0]
    return latents


def near_duplicates(rng):
    """States 1e-6 apart, far closer than the rounding of |x|^2 - 2 x.y + |y|^2 can tell."""
    return rng.normal(size=(5, 16))[rng.integers(0, 5, 3000)] + 1e-6 * rng.normal(size=(3000, 16))


def large_offset(rng):
    """Small differences on top of a large common vector."""
    return 1000.0 + 1e-2 * rng.normal(size=(3000, 16))


def many_scales(rng):
    """Clusters of all sizes, so that every query has its own scale of distances."""
    return rng.normal(size=(3000, 16)) * 10.0 ** rng.uniform(-8, 3, (3000, 1))


def one_dimension(rng):
    return rng.normal(size=(3000, 1))


@pytest.mark.parametrize(
    "make",
    [duplicates, mostly_duplicates, near_duplicates, large_offset, many_scales, one_dimension],
)
@pytest.mark.parametrize("excluding", [False, True])
def test_hard_latents_equal_pairwise_differences(make, excluding):
    latents = make(np.random.default_rng(7)).astype(np.float32)
    own_row = np.arange(0, 3000, 75, dtype=np.int32)
    queries = latents[own_row]
    truth = cdist(queries.astype(np.float64), latents.astype(np.float64))
    if excluding:
        truth[np.arange(len(queries)), own_row] = np.inf
    truth = np.sort(truth, axis=1)[:, :5]
    ring = filled(latents, 3200)
    found = np.asarray(nearest(queries, ring, k=5, exclude=own_row if excluding else None))
    # An exact copy is exactly 0: a relative tolerance alone.
    np.testing.assert_allclose(found, truth, rtol=1e-5)


def test_a_query_far_from_every_row_or_at_the_origin():
    rng = np.random.default_rng(1)
    latents = rng.normal(size=(500, 8)).astype(np.float32)
    queries = np.stack([np.zeros(8), np.full(8, 1e6), latents[3] + 1e-3]).astype(np.float32)
    truth = np.sort(cdist(queries.astype(np.float64), latents.astype(np.float64)), axis=1)[:, :4]
    np.testing.assert_allclose(nearest(queries, filled(latents, 500), k=4), truth, rtol=2e-6)


@pytest.mark.parametrize("search", [neighbours.nearest, neighbours.nearest_by_broadcast])
def test_the_searches_of_the_benchmark_find_the_same(search):
    latents, own_row, ring = stored_queries("too large for one product")
    rows = torch.from_numpy(latents)
    found = search(rows[torch.from_numpy(own_row).long()], rows, 4)
    np.testing.assert_allclose(found, kth(latents[own_row], ring, k=4), rtol=1e-3, atol=1e-3)
