"""Repeated elements of a batch, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.repeats import ALL_PAIRS, AT_ONCE, first_places, once_each, once_each_element


@pytest.mark.parametrize("size", [1, 7, ALL_PAIRS, ALL_PAIRS + 1, 1000])
@pytest.mark.parametrize("kinds", [1, 5, 2**32])
def test_where_a_value_comes_first(size, kinds):
    values = np.random.default_rng(size).integers(0, kinds, size, dtype=np.uint32)
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    found = jax.jit(first_places)(values)
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found, first[inverse])
    # Negative values are values, too: a ring has -1 for a place without a row.
    signed = values.astype(np.int32)
    np.testing.assert_array_equal(first_places(jnp.asarray(signed)), first[inverse])


@pytest.mark.parametrize("kinds", [1, AT_ONCE, AT_ONCE + 1, 10**6])
@pytest.mark.parametrize("size", [AT_ONCE, AT_ONCE + 1, 5 * AT_ONCE - 3])
def test_work_is_done_once_for_each_value(size, kinds):
    values = np.random.default_rng(kinds).integers(0, kinds, size, dtype=np.int32)
    calls = []

    def function(values):
        jax.debug.callback(lambda x: calls.append(x), values)
        return {"square": values * values, "pair": jnp.stack([values, -values], axis=1)}

    found = jax.block_until_ready(jax.jit(lambda values: once_each(function, values))(values))
    np.testing.assert_array_equal(found["square"], values * values)
    np.testing.assert_array_equal(found["pair"], np.stack([values, -values], axis=1))
    jax.effects_barrier()
    distinct = np.unique(values)
    assert len(calls) == (1 if size <= AT_ONCE else -(-len(distinct) // AT_ONCE))
    np.testing.assert_array_equal(np.unique(calls), distinct)


def test_batches_of_several_members():
    values = np.random.default_rng(0).integers(0, 700, (3, 1000), dtype=np.int32)
    found = jax.jit(jax.vmap(lambda row: once_each(jnp.square, row)))(values)
    np.testing.assert_array_equal(found, values**2)


@pytest.mark.parametrize("size", [AT_ONCE, 900])
def test_equal_elements_share_their_result_and_hashes_may_collide(size):
    elements = np.random.default_rng(1).integers(0, 2, (size, 3, 2), dtype=np.uint8)
    # Eight hashes of 64 elements.
    hashes = elements.reshape(size, -1)[:, :3] @ np.array([1, 2, 4], np.uint32)
    found = jax.jit(lambda *given: once_each_element(jnp.cos, *given))(elements, hashes)
    np.testing.assert_allclose(found, np.cos(elements.astype(np.float32)), rtol=1e-6)
