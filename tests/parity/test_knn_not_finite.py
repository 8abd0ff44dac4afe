"""Observations that are not finite leave the distances of all others as scikit-learn has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from re3_jax import knn
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import IntrinsicBatch, RE3Config, Step, from_config
from re3_jax.replay import distinct_ring, latent_ring

BAD = [np.nan, np.inf, -np.inf, 1e25]
"""The square of the last overflows float32."""

K = 5


def with_bad_rows(count, dim, seed=0):
    """Latents of which every kind of `BAD` fills one row and one element of another."""
    rng = np.random.default_rng(seed)
    latents = rng.normal(size=(count, dim)).astype(np.float32)
    places = rng.choice(count, 2 * len(BAD), replace=False)
    for number, place in zip(BAD, places[: len(BAD)], strict=True):
        latents[place] = number
    latents[places[len(BAD) :], rng.integers(0, dim, len(BAD))] = BAD
    return latents, places


@pytest.mark.parametrize("ring_of", [latent_ring, distinct_ring], ids=lambda m: m.__name__[16:])
@pytest.mark.parametrize(
    ("capacity", "rows", "dim"), [(40, 30, 3), (900, 900, 20), (9000, 7000, 8)]
)
def test_others_have_the_neighbours_of_the_finite_rows(ring_of, capacity, rows, dim):
    latents, bad = with_bad_rows(rows, dim)
    queries = with_bad_rows(31, dim, seed=1)[0]
    finite = np.abs(queries).max(axis=1) < 1e6

    @jax.jit
    def search(latents, queries):
        ring, _ = ring_of.add(ring_of.init(capacity, dim), latents)
        return knn.nearest_and_mean(queries, ring, k=K)

    found, mean = search(latents, queries)
    kept = np.delete(latents, bad, axis=0).astype(np.float64)
    truth, _ = NearestNeighbors(n_neighbors=K).fit(kept).kneighbors(queries[finite].astype(float))
    np.testing.assert_allclose(found[finite], truth, rtol=2e-6)
    np.testing.assert_allclose(mean[finite], truth.mean(axis=1), rtol=2e-6)
    assert np.isnan(found[~finite]).all()
    assert np.isnan(mean[~finite]).all()


def test_where_all_rows_are_bad_no_neighbour_exists():
    rows = jnp.full((6, 2), jnp.nan)
    ring, index = latent_ring.add(latent_ring.init(6, 2), rows)
    queries = jnp.ones((1, 2))
    np.testing.assert_array_equal(knn.nearest_distances(queries, ring, k=3), np.zeros((1, 3)))
    stored = knn.nearest_distances(ring.latents[index], ring, k=3, exclude=index)
    assert np.isnan(stored).all()


@pytest.mark.parametrize("scale", [1.5, 1e-3])
def test_scalars_that_are_not_finite_are_nobodys_neighbours(scale):
    rng = np.random.default_rng(2)
    latents, scalars = rng.normal(size=(300, 4)).astype(np.float32), rng.normal(size=300)
    bad = np.array([3, 50, 299])
    given = scalars.astype(np.float32)
    given[bad] = np.nan, np.inf, -np.inf
    ring, index = latent_ring.add(latent_ring.init(300, 4), latents)
    found = jax.jit(
        lambda: knn.kth_joint_distance(latents, given, ring, given, k=K, scale=scale, exclude=index)
    )()
    kept = np.delete(np.arange(300), bad)
    apart = np.linalg.norm(latents[kept, None] - latents[None, kept], axis=-1)
    gaps = scale * abs(scalars[kept, None] - scalars[None, kept])
    joint = np.maximum(apart, gaps)
    np.fill_diagonal(joint, np.inf)
    np.testing.assert_allclose(found[kept], np.sort(joint, axis=1)[:, K - 1], rtol=2e-6)
    assert np.isnan(found[bad]).all()
    # Nor where there is no other: the furthest that exists counts.
    few, _ = latent_ring.add(latent_ring.init(4, 4), latents[:4])
    with_few = knn.kth_joint_distance(
        latents[:1], given[:1], few, given[:4], k=4, scale=scale, exclude=index[:1]
    )
    others = np.maximum(apart[0, 1:3], gaps[0, 1:3])
    np.testing.assert_allclose(with_few, [others.max()], rtol=2e-6)


@pytest.mark.parametrize("merge_copies", [False, True])
def test_re3_pays_the_others_as_without_it_and_shows_it(merge_copies):
    """A fault that was paid 0 would never be found."""
    spec = EnvSpec("plane", (2,), np.dtype(np.float32), Discrete(4), max_agent_steps=100)
    bonus = from_config(RE3Config(ring_size=64, beta=1.0, merge_copies=merge_copies))

    def paid(observation):
        observation = jnp.asarray(observation, jnp.float32)
        state = bonus.init(jax.random.key(0), spec)
        state, index = bonus.observe(state, Step(observation))
        action = jnp.zeros(len(observation), jnp.int32)
        batch = IntrinsicBatch(observation, action, observation, index, jnp.int32(0))
        return np.asarray(jax.jit(bonus.reward)(state, batch)[0])

    good = np.random.default_rng(3).normal(size=(20, 2))
    bad = [0, 7, 9, 15, 16, 24]
    rows = np.full((26, 2), np.nan)
    rows[np.delete(np.arange(26), bad)] = good
    found = paid(rows)
    assert np.isnan(found[bad]).all()
    np.testing.assert_allclose(np.delete(found, bad), paid(good), rtol=1e-5)
