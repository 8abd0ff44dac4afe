"""`flat_random` draws what `jax.random` draws, bit for bit, in both of its layouts of the bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.cpu import flat_random

KEY = jax.random.key(5)
SHAPES = [(), (7,), (3, 5), (2, 3, 4)]


@pytest.fixture(params=[True, False], autouse=True)
def partitionable(request):
    with jax.threefry_partitionable(request.param):
        yield


@pytest.mark.parametrize("shape", SHAPES)
def test_normal_numbers(shape):
    for dtype in (jnp.float32, jnp.bfloat16):
        drawn, wanted = flat_random.normal(KEY, shape, dtype), jax.random.normal(KEY, shape, dtype)
        assert drawn.dtype == dtype
        np.testing.assert_array_equal(drawn, wanted)


@pytest.mark.parametrize("shape", SHAPES)
def test_uniform_numbers(shape):
    wanted = jax.random.uniform(KEY, shape, jnp.float32, -2.0, 3.0)
    np.testing.assert_array_equal(flat_random.uniform(KEY, shape, minval=-2.0, maxval=3.0), wanted)


def test_bounds_of_each_element():
    low, high = jnp.array([-1.0, 0.0, 5.0]), jnp.array([1.0, 0.5, 6.0])
    wanted = jax.random.uniform(KEY, (4, 3), jnp.float32, low, high)
    np.testing.assert_array_equal(flat_random.uniform(KEY, (4, 3), minval=low, maxval=high), wanted)
    largest = jnp.array([2, 9])
    wanted = jax.random.randint(KEY, (30, 2), 0, largest)
    np.testing.assert_array_equal(flat_random.randint(KEY, (30, 2), 0, largest), wanted)
    wanted = jax.random.randint(KEY, (30, 2), -3, 4)
    np.testing.assert_array_equal(flat_random.randint(KEY, (30, 2), -3, 4), wanted)


def test_actions_of_a_policy():
    logits = jax.random.normal(jax.random.key(1), (6, 16, 7))
    drawn = flat_random.categorical(KEY, logits)
    assert drawn.dtype == jnp.int32
    np.testing.assert_array_equal(drawn, jax.random.categorical(KEY, logits))
    keys = jax.random.split(KEY, 6)
    wanted = jax.vmap(jax.random.categorical)(keys, logits)
    np.testing.assert_array_equal(jax.vmap(flat_random.categorical)(keys, logits), wanted)
