"""Properties of every search, on a small lattice with many ties and copies."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax import knn
from re3_jax.replay import latent_ring

CAPACITY, DIM, QUERIES, K = 150, 2, 7, 6


@jax.jit
def search(queries, latents, rows, own_row):
    """Searches the first `rows` of `latents`, held in a ring of CAPACITY."""
    norms = jnp.sum(latents**2, axis=1)
    ring = latent_ring.init(CAPACITY, DIM)._replace(
        latents=latents, squared_norms=norms, cursor=rows % CAPACITY, num_valid=rows
    )
    return knn.nearest_distances(queries, ring, k=K, exclude=own_row)


def points(seed, count, lattice):
    rng = np.random.default_rng(seed)
    return rng.integers(-lattice, lattice + 1, (count, DIM)).astype(np.float32)


lattices = st.sampled_from([1, 3, 50])
seeds = st.integers(0, 2**32 - 1)
nobody = np.full(QUERIES, -1, np.int32)


@settings(max_examples=60, deadline=None)
@given(seeds, lattices, st.integers(0, CAPACITY), st.booleans())
def test_equals_sorting_all_differences(seed, lattice, rows, excluding):
    latents = points(seed, CAPACITY, lattice)
    queries = points(seed + 1, QUERIES, lattice)
    own_row = np.arange(QUERIES, dtype=np.int32) * 5 if excluding else nobody
    squared = ((queries[:, None] - latents[None]) ** 2).sum(-1)
    squared[:, rows:] = np.inf
    if excluding:
        squared[np.arange(QUERIES), own_row] = np.inf
    expected = np.sqrt(np.sort(squared, axis=1)[:, :K])
    expected = np.maximum.accumulate(np.where(np.isinf(expected), 0.0, expected), axis=1)
    np.testing.assert_allclose(search(queries, latents, rows, own_row), expected, rtol=1e-6)


@settings(max_examples=25, deadline=None)
@given(seeds, lattices, st.integers(K, CAPACITY))
def test_row_order_does_not_matter_and_more_rows_never_raise_distances(seed, lattice, rows):
    latents = points(seed, CAPACITY, lattice)
    queries = points(seed + 1, QUERIES, lattice)
    found = np.asarray(search(queries, latents, rows, nobody))
    assert np.all(np.diff(found, axis=1) >= 0)
    shuffled = latents.copy()
    shuffled[:rows] = np.random.default_rng(seed).permutation(latents[:rows])
    np.testing.assert_array_equal(search(queries, shuffled, rows, nobody), found)
    assert np.all(search(queries, latents, CAPACITY, nobody) <= found)
