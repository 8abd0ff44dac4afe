"""The search in the max-norm of latents and a scalar, against sorting all differences in NumPy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax import knn
from re3_jax.replay import latent_ring

CAPACITY, DIM, QUERIES, K = 150, 2, 7, 6


def ring_of(latents, rows):
    norms, rows = jnp.sum(latents**2, axis=1), jnp.int32(rows)
    ring = latent_ring.init(*latents.shape)
    return ring._replace(latents=latents, squared_norms=norms, cursor=rows, num_valid=rows)


@jax.jit
def search(queries, scalars, latents, row_scalars, rows, own_row):
    ring = ring_of(latents, rows)
    return knn.kth_joint_distance(
        queries, scalars, ring, row_scalars, k=K, scale=2.0, exclude=own_row
    )


def expected(queries, scalars, latents, row_scalars, rows, own_row, k=K):
    """The k-th smallest of max(||y_i - y_j||, |v_i - v_j|), in float64."""
    queries, scalars, latents, row_scalars = (
        np.asarray(x, np.float64) for x in (queries, scalars, latents, row_scalars)
    )
    apart = np.linalg.norm(queries[:, None] - latents[None], axis=-1)
    joint = np.maximum(apart, abs(scalars[:, None] - row_scalars[None]))
    joint[:, rows:] = np.inf
    mine = own_row >= 0
    joint[np.flatnonzero(mine), own_row[mine]] = np.inf
    nearest = np.sort(joint, axis=1)[:, :k]
    return np.maximum.accumulate(np.where(np.isinf(nearest), 0.0, nearest), axis=1)[:, -1]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 50]), st.integers(0, CAPACITY))
def test_equals_sorting_all_differences(seed, lattice, rows):
    rng = np.random.default_rng(seed)

    def points(*shape):
        return rng.integers(-lattice, lattice + 1, shape).astype(np.float32)

    given = points(QUERIES, DIM), points(QUERIES), points(CAPACITY, DIM), points(CAPACITY)
    own_row = rng.integers(-1, CAPACITY, QUERIES).astype(np.int32)
    found = search(*given, rows, own_row)
    queries, scalars, latents, row_scalars = given
    truth = expected(queries, 2 * scalars, latents, 2 * row_scalars, rows, own_row)
    np.testing.assert_allclose(found, truth, rtol=1e-6)


@pytest.mark.parametrize("away", [0.0, 300.0])
def test_many_rows_of_several_rings_and_a_cluster_far_from_the_origin(away):
    """Blocks, groups and, far away, the searches that rounding of the product makes necessary."""
    rng, rows, dim, batch, k = np.random.default_rng(0), 4500, 16, 40, 3
    latents = (away + rng.normal(size=(2, rows, dim))).astype(np.float32)
    row_scalars = rng.normal(size=(2, rows)).astype(np.float32) * [[1.0], [8.0]]
    own_row = rng.integers(0, rows, (2, batch)).astype(np.int32)
    queries = np.stack([latents[i, own_row[i]] for i in range(2)])
    scalars = np.stack([row_scalars[i, own_row[i]] for i in range(2)])

    @jax.jit
    @jax.vmap
    def both(queries, scalars, latents, row_scalars, own_row):
        ring = ring_of(latents, rows)
        return knn.kth_joint_distance(queries, scalars, ring, row_scalars, k=k, exclude=own_row)

    given = queries, scalars.astype(np.float32), latents, row_scalars.astype(np.float32)
    found = both(*given, own_row)
    for i in range(2):
        truth = expected(*(x[i] for x in given), rows, own_row[i], k)
        np.testing.assert_allclose(found[i], truth, rtol=2e-4)
        # Without the scalar, neighbours are nearer.
        alone = expected(given[0][i], 0 * given[1][i], given[2][i], 0 * given[3][i], rows,
                         own_row[i], k)  # fmt: skip
        assert (truth > 1.01 * alone).any()


def test_copies_of_an_observation_differ_in_their_scalars_alone():
    """Their latents may differ by rounding."""
    latents = jnp.ones((3, 4)) + jnp.arange(3)[:, None] * 1e-7
    same, values = jnp.full(3, 9, jnp.uint32), jnp.array([0.0, 0.5, 2.0])
    ring, own = latent_ring.add(latent_ring.init(3, 4), latents, same)
    find = jax.jit(partial(knn.kth_joint_distance, k=1))
    found = find(latents, values, ring, values, exclude=own, fingerprints=same)
    np.testing.assert_array_equal(found, [0.5, 0.5, 1.5])


def test_scalars_that_do_not_fit_are_refused():
    ring, _ = latent_ring.add(latent_ring.init(4, 2), jnp.ones((4, 2)))
    with pytest.raises(ValueError, match=r"of \[3\] queries and \[4\] rows .* \[1\] and \[4\]"):
        knn.kth_joint_distance(jnp.ones((3, 2)), jnp.ones(1), ring, jnp.ones(4), k=1)
