"""`examples/plugin_craftax.py` against Craftax's own environment, stepped and reset by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("craftax", reason="craftax")

from craftax.craftax_env import make_craftax_env_from_name

from examples import plugin_craftax

# Its programs take a minute to compile.
pytestmark = pytest.mark.slow

LANES, STEPS = 4, 250
NAME = "Craftax-Classic-Symbolic-v1"


def test_every_step_and_reset_is_craftaxs():
    ours, theirs = plugin_craftax.craftax(NAME), make_craftax_env_from_name(NAME, auto_reset=False)
    params = theirs.default_params
    step = jax.jit(jax.vmap(lambda key, s, a: theirs.step_env(key, s, a, params)))
    start = jax.jit(jax.vmap(lambda key: theirs.reset_env(key, params)))
    keys = jax.random.split(jax.random.key(0), LANES)
    state, observation = jax.jit(jax.vmap(ours.reset))(keys)
    expected, by_hand = start(keys)
    np.testing.assert_array_equal(observation, expected)
    random, our_step, ended = np.random.default_rng(0), jax.jit(jax.vmap(ours.step)), 0
    for number in range(STEPS):
        action = jnp.asarray(random.integers(0, ours.spec.action_space.num_outputs, LANES))
        keys = jax.random.split(jax.random.key(number + 1), LANES)
        state, timestep = our_step(state, action, keys)
        of_step, of_reset = jax.vmap(jax.random.split, out_axes=1)(keys)
        last, by_hand, reward, done, _ = step(of_step, by_hand, action)
        np.testing.assert_array_equal(timestep.final_observation, last)
        np.testing.assert_array_equal(timestep.reward, reward)
        np.testing.assert_array_equal(timestep.terminated, done)
        assert not timestep.truncated.any()
        if done.any():
            first, fresh = start(of_reset)
            by_hand = jax.tree.map(
                lambda new, old, done=done: jnp.where(
                    done.reshape(-1, *[1] * (new.ndim - 1)), new, old
                ),
                fresh,
                by_hand,
            )
            last = jnp.where(done[:, None], first, last)
            ended += int(done.sum())
        np.testing.assert_array_equal(timestep.observation, last)
    assert ended >= 3


def test_the_time_limit_truncates():
    ours = plugin_craftax.craftax(NAME)
    state, _ = ours.reset(jax.random.key(0))
    late = state.replace(timestep=jnp.int32(ours.spec.max_agent_steps - 1))
    _, timestep = jax.jit(ours.step)(late, jnp.int32(0), jax.random.key(1))
    assert (timestep.terminated, timestep.truncated) == (False, True)
