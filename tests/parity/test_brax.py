"""brax through the device contract, against brax's own environments."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs.base import Box
from re3_jax.envs.device import brax as adapter

LANES = 4


@functools.cache
def rollout(name, num_steps):
    """Random actions in `LANES` lanes: states before each step, actions, steps."""
    env = adapter.make(name)

    def body(carry, key):
        state, observation = carry
        action_key, step_key = jax.random.split(key)
        shape = (LANES, *env.spec.action_space.shape)
        action = jax.random.uniform(action_key, shape, jnp.float32, -1.0, 1.0)
        after, steps = jax.vmap(env.step)(state, action, jax.random.split(step_key, LANES))
        return (after, steps.observation), (state, observation, action, steps)

    @jax.jit
    def run(key):
        start = jax.vmap(env.reset)(jax.random.split(key, LANES))
        return jax.lax.scan(body, start, jax.random.split(key, num_steps))[1]

    return env.spec, jax.device_get(run(jax.random.key(0)))


@functools.cache
def brax_env(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from brax import envs

        return envs.get_environment(name, backend="generalized")


def check_contract(name, num_steps):
    spec, (states, observation, action, steps) = rollout(name, num_steps)
    assert spec.task == f"brax:{name}"
    assert observation.shape == (num_steps, LANES, *spec.observation_shape)
    assert observation.dtype == spec.observation_dtype
    assert isinstance(spec.action_space, Box)
    assert (spec.action_space.low, spec.action_space.high) == (-1.0, 1.0)
    done = steps.terminated | steps.truncated
    # Truncated after exactly the episode's length, whatever ended the episode before.
    for lane in range(LANES):
        ends = np.flatnonzero(done[:, lane])
        lengths = np.diff(np.concatenate([[-1], ends]))
        truncated = steps.truncated[ends, lane]
        np.testing.assert_array_equal(truncated, lengths == spec.max_agent_steps)
        assert (lengths <= spec.max_agent_steps).all()
    # Same-step reset: the observation is the next episode's, and the last one is kept.
    np.testing.assert_array_equal(steps.observation[~done], steps.final_observation[~done])
    assert (np.abs(steps.observation[done] - steps.final_observation[done]).max(axis=1) > 0).all()
    np.testing.assert_array_equal(observation[1:], steps.observation[:-1])
    # Every start differs, and starts are distributed as brax's.
    starts = np.concatenate([observation[0], steps.observation[done]])
    assert len(np.unique(starts, axis=0)) == len(starts) > LANES
    return states, action, steps, starts


def check_steps(name, states, action, steps, times):
    """Steps at `times` equal brax's own from the same states."""
    env = brax_env(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = jax.tree.map(lambda leaf: jnp.asarray(leaf[times, 0]), states.brax)
        after = jax.jit(jax.vmap(env.step))(before, jnp.asarray(action[times, 0]))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-3)
    close(steps.final_observation[times, 0], after.obs)
    close(steps.reward[times, 0], after.reward)
    np.testing.assert_array_equal(steps.terminated[times, 0], after.done.astype(bool))


def test_an_episode_that_terminates():
    states, action, steps, starts = check_contract("inverted_pendulum", 60)
    assert steps.terminated.sum() > LANES
    assert not steps.truncated.any()
    assert (np.abs(starts) <= 0.011).all()
    ends = np.flatnonzero(steps.terminated[:, 0])
    check_steps("inverted_pendulum", states, action, steps, np.array([0, ends[0], ends[0] + 1]))


@pytest.mark.slow
def test_an_episode_that_is_truncated():
    states, action, steps, starts = check_contract("halfcheetah", 1010)
    np.testing.assert_array_equal(np.unique(np.nonzero(steps.truncated)[0]), [999])
    assert not steps.terminated.any()
    check_steps("halfcheetah", states, action, steps, np.array([0, 500, 999, 1000]))


def test_making_a_task_writes_and_prints_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adapter.make("halfcheetah")
    assert list(tmp_path.iterdir()) == []
