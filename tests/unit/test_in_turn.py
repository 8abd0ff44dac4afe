"""`in_turn`: the elements of a mapped axis one after the other, with the results of `vmap`."""

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.cpu.by_platform import in_turn


def _step(weights, inputs, scale):
    return {"out": jnp.tanh(inputs["x"] @ weights) * scale, "none": None}, jnp.sum(weights)


def test_elements_in_turn_are_those_of_vmap():
    weights, x = np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(np.float32)
    axes, arguments = (0, 0, None), (weights, {"x": x}, jnp.float32(2))
    expected = jax.vmap(_step, axes)(*arguments)
    found = jax.jit(jax.vmap(in_turn(_step), axes))(*arguments)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)


def test_a_single_element_and_keys_pass_through():
    def draw(key, shift):
        return jax.random.normal(key, (2,)) + shift

    keys, shift = jax.random.split(jax.random.key(0), 3), jnp.arange(3.0)
    found = jax.jit(jax.vmap(in_turn(draw)))(keys, shift)
    for number, key in enumerate(keys):
        np.testing.assert_allclose(found[number], in_turn(draw)(key, shift[number]), rtol=1e-6)
        np.testing.assert_allclose(found[number], draw(key, shift[number]), rtol=1e-6)
