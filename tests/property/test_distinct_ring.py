"""A ring that merges copies stores and finds the same latents as a plain ring."""

import functools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax import knn
from re3_jax.knn.search import SMALL_K
from re3_jax.replay import distinct_ring, latent_ring

DIM = 3
add = jax.jit(distinct_ring.add, donate_argnums=0)
add_plain = jax.jit(latent_ring.add)
row_at = jax.jit(distinct_ring.row_at)


def stored(ring):
    """The number of copies of each latent."""
    rows = Counter()
    for latent, copies in zip(np.asarray(ring.latents), np.asarray(ring.copies), strict=True):
        rows[latent.tobytes()] += int(copies)
    return +rows


def check(ring, plain):
    """Checks the multiset of latents, their rows, and every invariant of the stack of free rows."""
    valid = int(plain.num_valid)
    newest = (int(plain.cursor) - 1 - np.arange(valid)) % plain.latents.shape[0]
    expected = Counter(latent.tobytes() for latent in np.asarray(plain.latents)[newest])
    assert stored(ring) == expected
    rows = np.asarray(row_at(ring, np.arange(plain.latents.shape[0])))[newest]
    np.testing.assert_array_equal(np.asarray(ring.latents)[rows], np.asarray(plain.latents)[newest])
    free = np.asarray(ring.free_rows)[: int(ring.num_free)]
    np.testing.assert_array_equal(np.sort(free), np.flatnonzero(np.asarray(ring.copies) == 0))
    norms = (np.asarray(ring.latents) ** 2).sum(axis=1)
    np.testing.assert_allclose(ring.squared_norms, norms, rtol=1e-6)
    used = np.flatnonzero(np.asarray(ring.copies))
    assert used.size == 0 or used.max() < int(ring.num_rows)


@settings(max_examples=40, deadline=None)
@given(
    capacity=st.sampled_from([5, 16]),
    batches=st.lists(st.sampled_from([1, 5]), max_size=16),
    num_kinds=st.sampled_from([1, 3, 30]),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_a_plain_ring(capacity, batches, num_kinds, seed):
    rng = np.random.default_rng(seed)
    kinds = rng.normal(size=(num_kinds, DIM)).astype(np.float32)
    ring, plain = distinct_ring.init(capacity, DIM), latent_ring.init(capacity, DIM)
    for size in batches:
        latents = kinds[rng.integers(0, num_kinds, size)]
        ring, index = add(ring, latents)
        plain, expected = add_plain(plain, latents)
        np.testing.assert_array_equal(index, expected)
        check(ring, plain)


def test_a_collision_of_fingerprints_loses_nothing():
    """If all fingerprints are equal, most rows cannot be found again, and latents stay separate."""
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(9, DIM)).astype(np.float32)
    ring, plain = distinct_ring.init(16, DIM), latent_ring.init(16, DIM)
    same = jnp.zeros(5, jnp.uint32)
    for _ in range(20):
        latents = kinds[rng.integers(0, 9, 5)]
        ring, _ = add(ring, latents, same)
        plain, _ = add_plain(plain, latents)
        check(ring, plain)


def test_a_latent_that_is_not_finite_is_no_copy():
    """The tolerance of copies grows with the norm, and that of this one is infinite."""
    latents = np.float32([[1, 0], [0, 2], [5, 5], [np.nan, 0]])
    prints = jnp.array([7, 8, 9, 7], jnp.uint32)
    rings = distinct_ring, latent_ring
    of_distinct, of_plain = (
        knn.nearest_distances(latents[:1], ring.add(ring.init(4, 2), latents, prints)[0], k=3)
        for ring in rings
    )
    np.testing.assert_array_equal(of_distinct, of_plain)
    ring, _ = distinct_ring.add(distinct_ring.init(4, 2), latents[:3], prints[:3])
    ring, _ = distinct_ring.add(ring, latents[3:], prints[3:])
    np.testing.assert_array_equal(knn.nearest_distances(latents[:1], ring, k=3), of_plain)


@functools.partial(jax.jit, static_argnums=(2, 3))
def search(queries, ring, first, k, exclude=None):
    return knn.nearest_and_mean(queries, ring, k=k, first=first, exclude=exclude)


@settings(max_examples=40, deadline=None)
@given(
    ranks=st.sampled_from([(1, 1), (2, 3), (1, 5)]),
    num_kinds=st.sampled_from([1, 2, 4, 40]),
    num_batches=st.integers(1, 12),
    exclude=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_searches_equal_a_plain_rings(ranks, num_kinds, num_batches, exclude, seed):
    rng = np.random.default_rng(seed)
    kinds = rng.normal(size=(num_kinds, DIM)).astype(np.float32)
    ring, plain = distinct_ring.init(50, DIM), latent_ring.init(50, DIM)
    for _ in range(num_batches):
        latents = kinds[rng.integers(0, num_kinds, 5)]
        ring, index = add(ring, latents)
        plain, _ = add_plain(plain, latents)
    row = row_at(ring, index)
    found = search(latents, ring, *ranks, row if exclude else None)
    expected = search(latents, plain, *ranks, index if exclude else None)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)


@functools.partial(jax.jit, static_argnums=0)
def fill(module, latents):
    """A ring for each seed."""

    def over_time(latents):
        return jax.lax.scan(module.add, module.init(4000, 16), latents)[0]

    return jax.vmap(over_time, in_axes=1)(latents)


@jax.jit
@jax.vmap
def nearest(ring, queries):
    return knn.nearest_distances(queries, ring, k=5)


@pytest.mark.parametrize("num_kinds", [100, 900, 3000])
def test_many_rows_and_many_seeds(num_kinds):
    """Each size of search that a ring of the usual capacity can take, one ring per seed."""
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(num_kinds, 16)).astype(np.float32)
    latents = kinds[rng.integers(0, num_kinds, (60, 2, 80))]
    ring, plain = fill(distinct_ring, latents), fill(latent_ring, latents)
    assert (ring.num_rows <= 1.05 * num_kinds).all()
    queries = latents[-1] + np.float32(0.01) * rng.normal(size=latents[-1].shape).astype(np.float32)
    for asked in (latents[-1], queries):
        np.testing.assert_allclose(
            nearest(ring, asked),
            nearest(plain, asked),
            rtol=1e-5,
            atol=1e-7,
        )


def test_insertion_into_a_donated_ring_copies_nothing():
    ring = distinct_ring.init(10_000, 64)
    compiled = add.lower(ring, np.zeros((7, 64), np.float32)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 100_000
    pointer = ring.latents.unsafe_buffer_pointer()
    after, _ = add(ring, np.ones((7, 64), np.float32))
    assert after.latents.unsafe_buffer_pointer() == pointer


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: distinct_ring.init(0, 4), "at least 1"),
        (lambda: distinct_ring.add(distinct_ring.init(5, 2), jnp.zeros((9, 2))), "one rollout"),
    ],
)
def test_bad_shapes_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("excluding", [False, True])
@pytest.mark.parametrize("num_kinds", [4, 40, 600])
def test_large_ranks_count_copies(num_kinds, excluding):
    """Against a float64 sort of all distances; k is above `SMALL_K`, rows below and above 512."""
    rng, k = np.random.default_rng(num_kinds), SMALL_K + 36
    kinds = rng.normal(size=(num_kinds, DIM)).astype(np.float32)
    latents = kinds[rng.integers(0, num_kinds, 650)]
    ring, index = add(distinct_ring.init(700, DIM), latents)
    rows = distinct_ring.row_at(ring, index[:20]) if excluding else None
    found = knn.nearest_distances(latents[:20], ring, k=k, exclude=rows)
    differences = latents[:20, None].astype(np.float64) - latents
    expected = np.sort(np.linalg.norm(differences, axis=2), axis=1)
    first = int(excluding)
    np.testing.assert_allclose(found, expected[:, first : first + k], rtol=1e-5, atol=1e-6)
