"""Digests of states: those of hashlib, whatever holds the rows, and different for any other bit."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.training import digests


def state():
    keys = jax.random.split(jax.random.key(0), 2)
    return {"a": jnp.arange(6, dtype=jnp.int16).reshape(2, 3), "b": (keys, jnp.ones((2, 0)))}


def test_rows_are_hashed_as_their_bytes():
    rows = digests.of_rows(state())
    assert list(rows) == ["a", "b/0", "b/1"]
    assert rows["a"].rows[1] == hashlib.sha256(np.int16([3, 4, 5]).tobytes()).digest()
    assert rows["a"].form == "int16 (3,)"
    key = np.asarray(jax.random.key_data(state()["b"][0][0]))
    assert rows["b/0"].rows[0] == hashlib.sha256(key.tobytes()).digest()


def test_each_seed_has_its_own_digest():
    first, second = digests.of_seeds(state())
    alone = jax.tree.map(lambda leaf: leaf[1:], state())
    assert digests.of_seeds(alone) == [second] != [first]
    other = {**state(), "a": state()["a"].at[0, 0].add(1)}
    assert digests.of_seeds(other)[0] != first
    assert digests.of_seeds(other)[1] == second


def test_leaves_differ_by_dtype_shape_and_bytes():
    def of(leaf):
        return digests.of_leaves(digests.of_rows({"a": leaf}))["a"]

    zeros = [jnp.zeros((2, 4)), jnp.zeros((2, 4), jnp.int32), jnp.zeros((4, 2)), jnp.zeros((2, 5))]
    assert len({of(leaf) for leaf in (*zeros, jnp.float32(0))}) == 5
