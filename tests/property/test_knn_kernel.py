"""The kernel for CUDA finds what sorting all differences finds; here it is interpreted."""

import importlib.util
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import knn
from re3_jax.accelerators import targets
from re3_jax.accelerators.cost import report
from re3_jax.accelerators.targets import TARGETS
from re3_jax.knn import exact, kernel
from re3_jax.replay import distinct_ring, latent_ring

K = 4


@pytest.fixture
def interpreted(monkeypatch):
    """Chooses the kernel on the CPU."""
    monkeypatch.setattr(kernel, "is_wanted", lambda: True)
    run = partial(kernel.score_groups, interpret=True)
    monkeypatch.setattr(kernel, "score_groups", run)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *args, **ways: _cuda(ways)(*args))
    exact._search.clear_cache()
    yield
    exact._search.clear_cache()


def _cuda(ways):
    return ways["cuda"] if "cuda" in ways else ways["default"]


def points(seed, count, dim, lattice):
    rng = np.random.default_rng(seed)
    return rng.integers(-lattice, lattice + 1, (count, dim)).astype(np.float32)


def nearest(queries, latents, rows, excluded=None):
    """Distances by differences; the rows past `rows` and the excluded one do not count."""
    squared = ((queries[:, None] - latents[None]) ** 2).sum(-1)
    squared[:, rows:] = np.inf
    if excluded is not None:
        squared[np.arange(len(queries)), excluded] = np.inf
    found = np.sqrt(np.sort(squared, axis=1)[:, :K])
    return np.maximum.accumulate(np.where(np.isinf(found), 0.0, found), axis=1)


# Neither tiles of rows, queries or dimensions nor groups divide these; lattices have many ties.
SIZES = [(1, 7, 3, 1), (64, 128, 16, 3), (70, 300, 17, 1), (65, 1111, 50, 30), (3, 4097, 2, 50)]


@pytest.mark.parametrize(("batch", "capacity", "dim", "lattice"), SIZES)
def test_equals_sorting_all_differences(batch, capacity, dim, lattice, interpreted):
    """Whatever the rows that hold no latent hold."""
    latents, queries = points(0, capacity, dim, lattice), points(1, batch, dim, lattice)
    norms = jnp.sum(latents**2, axis=1)
    own_row = np.arange(batch, dtype=np.int32) % capacity

    @jax.jit
    def search(rows):
        ring = latent_ring.init(capacity, dim)._replace(
            latents=latents, squared_norms=norms, num_valid=rows
        )
        return (
            knn.nearest_distances(queries, ring, k=K),
            knn.nearest_distances(queries, ring, k=K, exclude=own_row),
        )

    for rows in (0, 1, capacity // 3, capacity):
        everyone, others = search(rows)
        np.testing.assert_allclose(everyone, nearest(queries, latents, rows), rtol=1e-6)
        np.testing.assert_allclose(others, nearest(queries, latents, rows, own_row), rtol=1e-6)


def test_scores_are_of_the_differences_from_the_centre():
    """Near each other and far from the origin, rows cannot be told apart by products around it."""
    latents = 300 + 1e-3 * np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    centre = latents[0]
    rows, queries = (each.astype(np.float64) for each in (latents - centre, latents[:40] - centre))
    norms = (rows**2).sum(1)
    scores = kernel.score_groups(
        jnp.asarray(queries, jnp.float32), jnp.asarray(latents), jnp.asarray(norms, jnp.float32),
        jnp.asarray(centre), jnp.int32(300), group=4, num_groups=75, interpret=True,
    )  # fmt: skip
    expected = (2 * rows @ queries.T - norms[:, None]).reshape(75, 4, 40).max(1)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-11)


def test_a_dense_cluster_far_from_the_origin(interpreted):
    """The search is repeated around a point of the cluster."""
    latents = 300 + 1e-3 * points(2, 500, 8, 5)

    @jax.jit
    def search(queries):
        ring, _ = latent_ring.add(latent_ring.init(500, 8), latents)
        return knn.nearest_distances(queries, ring, k=K)

    np.testing.assert_allclose(search(latents[:40]), nearest(latents[:40], latents, 500), rtol=1e-3)


def test_rows_that_count_several_times_and_rings_of_several_seeds(interpreted):
    stored = points(3, 2 * 200, 2, 4).reshape(2, 200, 2)

    @jax.jit
    @jax.vmap
    def search(latents):
        ring, _ = distinct_ring.add(distinct_ring.init(200, 2), latents)
        return knn.nearest_distances(latents[:33], ring, k=K)

    for latents, found in zip(stored, search(stored), strict=True):
        np.testing.assert_allclose(found, nearest(latents[:33], latents, 200), rtol=1e-6)


def test_a_latent_that_is_not_finite_is_nobodys_neighbour(interpreted):
    latents, bad = points(4, 300, 6, 3), [*range(2, 300, 17)]
    broken = latents.copy()
    broken[bad] = np.nan
    finite = np.delete(latents, bad, axis=0)

    @jax.jit
    def search(queries):
        ring, _ = latent_ring.add(latent_ring.init(300, 6), broken)
        return knn.nearest_distances(queries, ring, k=K)

    np.testing.assert_allclose(
        search(latents[:40]), nearest(latents[:40], finite, len(finite)), rtol=1e-6
    )


def test_rows_that_are_not_finite_score_nothing():
    """The product of such a row with a large query overflows."""
    latents = np.full((8, 4), 1e18, np.float32)
    ring, _ = latent_ring.add(latent_ring.init(8, 4), jnp.asarray(latents).at[1].set(np.nan))
    scores = kernel.score_groups(
        jnp.asarray(latents[:2]), 10 * ring.latents, ring.squared_norms, jnp.zeros(4),
        jnp.int32(8), group=1, num_groups=8, interpret=True,
    )  # fmt: skip
    assert np.isneginf(scores[1]).all() and np.isfinite(np.delete(scores, 1, axis=0)).all()


def test_the_switch(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    for value, wanted in (("0", False), ("1", True)):
        monkeypatch.setenv(kernel.SWITCH, value)
        assert kernel.is_wanted.__wrapped__() == wanted


@pytest.mark.parametrize("target", ["h100", pytest.param("a100", marks=pytest.mark.slow)])
def test_compiled_for_a_gpu(target, monkeypatch):
    """The matrix of products stays out of memory, with one ring and with several."""
    if (missing := targets.missing_compiler(TARGETS[target])) is not None:
        pytest.skip(f"no compiler for {target}: {missing} is not installed")
    device = targets.devices(TARGETS[target])[0]
    on_device = jax.sharding.SingleDeviceSharding(device)

    def moved(seeds):
        def search(queries, ring):
            return jax.vmap(partial(knn.nearest_distances, k=K))(queries, ring)

        rings = jax.eval_shape(jax.vmap(lambda _: latent_ring.init(20_000, 50)), jnp.zeros(seeds))
        queries = jax.ShapeDtypeStruct((seeds, 512, 50), jnp.float32)
        shapes = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=on_device), (queries, rings)
        )
        return report(jax.jit(search).lower(*shapes).compile())

    fused, of_seeds = moved(1), moved(3)
    for found, seeds in ((fused, 1), (of_seeds, 3)):
        assert found.temporaries < seeds * 4 * 512 * 20_000 / 4
        assert found.cost.operations >= seeds * 2 * 512 * 20_000 * 50
    monkeypatch.setattr(kernel, "is_wanted", lambda: False)
    # Its loop over blocks of rows counts once: the length is that of the ring, unknown here.
    assert moved(1).cost.instructions > fused.cost.instructions
