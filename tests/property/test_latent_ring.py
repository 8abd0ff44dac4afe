"""The ring holds the same as a Python deque of its length, for any batches."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax.replay import distinct_ring, latent_ring

DIM = 3
add = jax.jit(latent_ring.add, donate_argnums=0)


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.sampled_from([5, 8]),
    batches=st.lists(st.sampled_from([1, 2, 5]), max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_a_deque(capacity, batches, seed):
    rng = np.random.default_rng(seed)
    ring, model = latent_ring.init(capacity, DIM), deque(maxlen=capacity)
    place: dict[int, np.ndarray] = {}
    for size in batches:
        latents = rng.normal(size=(size, DIM)).astype(np.float32)
        ring, index = add(ring, latents)
        model.extend(latents)
        for row, latent in zip(np.asarray(index), latents, strict=True):
            place[int(row)] = latent
    assert int(ring.num_valid) == len(model)
    assert int(ring.cursor) == sum(batches) % capacity
    oldest = (int(ring.cursor) - len(model)) % capacity
    in_order = np.asarray(ring.latents)[(oldest + np.arange(len(model))) % capacity]
    np.testing.assert_array_equal(in_order, np.array(model).reshape(-1, DIM))
    for row in range(capacity):
        expected = place.get(row, np.zeros(DIM, np.float32))
        np.testing.assert_array_equal(ring.latents[row], expected)
        norm = float(np.sum(expected.astype(np.float64) ** 2))
        np.testing.assert_allclose(ring.squared_norms[row], norm, rtol=1e-6)


def test_insertion_into_a_donated_ring_copies_nothing():
    ring = latent_ring.init(10_000, 64)
    compiled = add.lower(ring, np.zeros((7, 64), np.float32)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 100_000
    pointer = ring.latents.unsafe_buffer_pointer()
    after, _ = add(ring, np.ones((7, 64), np.float32))
    assert after.latents.unsafe_buffer_pointer() == pointer


@pytest.mark.parametrize("kind", [latent_ring, distinct_ring])
@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_squares_are_those_of_float32(kind, dtype):
    """In half precision the square of 300 overflows, and in int32 that of 50,000."""
    latents = np.array([[300.0, 0.0, 1.0], [50_000.0, 0.0, 0.0]]).astype(dtype)
    ring, _ = kind.add(kind.init(4, DIM), jnp.asarray(latents))
    expected = np.square(latents.astype(np.float64)).sum(axis=1)
    np.testing.assert_allclose(np.sort(np.asarray(ring.squared_norms)[:4])[-2:], expected, 1e-6)
    assert ring.latents.dtype == ring.squared_norms.dtype == np.float32


@pytest.mark.parametrize("kind", [latent_ring, distinct_ring])
def test_latents_of_another_length_are_refused(kind):
    """A width of 1 would be broadcast into every column."""
    with pytest.raises(ValueError, match="latents of 1 numbers do not fit a ring of rows of 3"):
        kind.add(kind.init(4, DIM), jnp.zeros((2, 1)))
