"""k-NN under jit, scan and vmap equals single calls, for both ways to batch it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import knn
from re3_jax.knn import exact
from re3_jax.replay import latent_ring

CAPACITY, DIM, BATCH = 5000, 6, 16
# Different fill levels, so that the rings visit different blocks.
FILL = (0, 3, 2400, 4100, 5000, 1)


@pytest.fixture(scope="module")
def rings():
    rng = np.random.default_rng(0)

    @jax.jit
    def filled(latents, rows):
        def add(row, ring):
            return latent_ring.add(ring, latents[row][None])[0]

        return jax.lax.fori_loop(0, rows, add, latent_ring.init(CAPACITY, DIM))

    drawn = rng.normal(size=(len(FILL), CAPACITY, DIM)).round(1).astype(np.float32)
    made = [filled(latents, rows) for latents, rows in zip(drawn, FILL, strict=True)]
    queries = rng.normal(size=(len(FILL), BATCH, DIM)).round(1).astype(np.float32)
    own_row = np.arange(BATCH, dtype=np.int32)
    expected = np.stack([single(q, ring, own_row) for q, ring in zip(queries, made, strict=True)])
    assert single._cache_size() == 1, "the fill level must not compile the search again"
    return queries, jax.tree.map(lambda *x: jnp.stack(x), *made), own_row, expected


def search(queries, ring, own_row):
    return knn.nearest_distances(queries, ring, k=4, exclude=own_row)


single, add = jax.jit(search), jax.jit(latent_ring.add)


@pytest.fixture(params=["cpu", "default"])
def platform(request, monkeypatch):
    """Runs each platform's way of batching on this platform."""
    monkeypatch.setattr(
        jax.lax,
        "platform_dependent",
        lambda *args, **ways: ways.get(request.param, ways["default"])(*args),
    )
    exact._search.clear_cache()
    yield
    exact._search.clear_cache()


def pairs(tree):
    return jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), tree)


def test_vmap(rings, platform):
    queries, ring, own_row, expected = rings
    found = jax.jit(jax.vmap(search, in_axes=(0, 0, None)))(queries, ring, own_row)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_vmap_of_vmap(rings, platform):
    queries, ring, own_row, expected = rings
    nested = jax.jit(jax.vmap(jax.vmap(search, in_axes=(0, 0, None)), in_axes=(0, 0, None)))
    found = nested(*pairs((queries, ring)), own_row)
    np.testing.assert_allclose(found, pairs(expected), rtol=1e-6)


def test_one_ring_many_sets_of_queries(rings, platform):
    queries, ring, own_row, _ = rings
    one = jax.tree.map(lambda x: x[3], ring)
    found = jax.jit(jax.vmap(search, in_axes=(0, None, None)))(queries, one, own_row)
    expected = np.stack([single(q, one, own_row) for q in queries])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_scan_of_vmap(rings, platform):
    queries, ring, own_row, _ = rings

    def step(ring, queries):
        ring, _ = jax.vmap(latent_ring.add)(ring, queries)
        return ring, jax.vmap(search, in_axes=(0, 0, None))(queries, ring, own_row)

    steps = np.stack([queries, queries + 0.5])
    last, found = jax.jit(lambda ring, steps: jax.lax.scan(step, ring, steps))(ring, steps)
    for seed in range(len(FILL)):
        one = jax.tree.map(lambda x, seed=seed: x[seed], ring)
        for i in range(2):
            one, _ = add(one, steps[i, seed])
            expected = single(steps[i, seed], one, own_row)
            np.testing.assert_allclose(found[i, seed], expected, rtol=1e-6)
        np.testing.assert_array_equal(last.latents[seed], one.latents)


def test_queries_times_ring_is_never_stored():
    """The program's largest array stays smaller than the matrix of all distances."""
    capacity, batch = 40_000, 256
    arguments = jax.eval_shape(
        lambda: (jnp.zeros((batch, 8)), latent_ring.init(capacity, 8), jnp.zeros(batch, jnp.int32))
    )
    memory = jax.jit(search).lower(*arguments).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 4 * batch * capacity / 2
