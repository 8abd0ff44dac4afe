"""Exact counts: of the states that MiniGrid and DeepSea number, against Python's own counting."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs import registry
from re3_jax.envs.device.minigrid.closed_form import unpack_agent
from re3_jax.intrinsic import counts
from re3_jax.intrinsic.base import Step
from re3_jax.intrinsic.rewarding import reward_rollout
from tests import episodic_reference
from tests.prediction_tasks import TASKS

TIME, LANES, STATES = 30, 3, 7


@cache
def random_play(task, steps, lanes):
    """States [time, lane] of the lanes and whether they ended, under random actions."""
    env = registry.make(task)

    def step(state, key):
        act_key, env_key = jax.random.split(key)
        action = jax.random.randint(act_key, (lanes,), 0, env.spec.action_space.num_actions)
        following, result = jax.vmap(env.step)(state, action, jax.random.split(env_key, lanes))
        return following, (state, result.terminated | result.truncated)

    @jax.jit
    def play(key):
        state, _ = jax.vmap(env.reset)(jax.random.split(key, lanes))
        return jax.lax.scan(step, state, jax.random.split(key, steps))[1]

    return env, *play(jax.random.key(0))


def numbers_of(env, states):
    return np.asarray(jax.vmap(jax.vmap(env.states.counted))(states))


@pytest.mark.parametrize(("size", "reachable"), [(8, 36), (3, 6)])
def test_deep_sea_numbers_its_triangle_of_cells(size, reachable):
    env, states, _ = random_play(f"gymnax:DeepSea-bsuite-{size}", 400, 8)
    cells = list(zip(np.ravel(states.row), np.ravel(states.column), strict=True))
    numbers = np.ravel(numbers_of(env, states))
    assert len(set(numbers)) == len(set(cells)) == len(set(zip(numbers, cells, strict=True)))
    assert env.states.num_reachable == reachable and env.spec.num_states == size**2
    assert max(numbers) < size**2
    if size == 3:
        assert len(set(numbers)) == reachable


def test_door_key_tells_apart_place_key_and_door():
    env, states, _ = random_play("minigrid:DoorKey-5x5", 600, 64)
    agent = jax.device_get(unpack_agent(states.agent))
    situations = list(zip(*(np.ravel(part) for part in agent), strict=True))
    numbers = np.ravel(numbers_of(env, states))
    pairs = set(zip(numbers, situations, strict=True))
    assert len(set(numbers)) == len(set(situations)) == len(pairs)
    assert {(carrying, door) for *_, carrying, door in situations} >= {(0, 2), (1, 2), (1, 0)}
    assert env.spec.num_states == 6 * env.states.num_states > max(numbers)
    places = np.ravel(jax.vmap(jax.vmap(env.states.number))(states))
    assert len(set(places)) < len(set(numbers))


def test_a_task_without_objects_is_counted_by_its_places():
    env, states, _ = random_play("minigrid:Empty-5x5", 50, 4)
    np.testing.assert_array_equal(
        numbers_of(env, states), jax.vmap(jax.vmap(env.states.number))(states)
    )
    assert env.spec.num_states == env.states.num_states
    assert registry.make("gymnax:CartPole-v1").spec.num_states is None


def pay(config, numbers, ended):
    """What is paid for two rollouts, one after the other."""
    spec = registry.make(f"gymnax:DeepSea-bsuite-{STATES}").spec
    bonus = counts.counts(config, TIME * LANES)
    state = bonus.init(jax.random.key(0), spec, LANES)
    paid, rollout = [], jax.jit(lambda *given: reward_rollout(bonus, *given))
    for number, ends in zip(numbers, ended, strict=True):
        seen = jnp.zeros((TIME, LANES, 1))
        step = Step(seen, seen, seen, ends, jnp.zeros_like(ends), number)
        reward, state, _ = rollout(state, step, jnp.int32(0), jax.random.key(0))
        paid.append(np.asarray(reward))
    return np.stack(paid), state


@pytest.mark.parametrize("episodic", [False, True])
def test_two_rollouts_are_paid_by_their_counts(episodic):
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, STATES**2, (2, TIME, LANES)) % STATES
    ended = rng.random(numbers.shape) < 0.1
    paid, state = pay(counts.CountsConfig(episodic=episodic), numbers, ended)
    whole, ends = (x.reshape(2 * TIME, LANES) for x in (numbers, ended))
    if episodic:
        expected = episodic_reference.visits(whole, ends).reshape(numbers.shape)
        assert ended.any() and 1 < expected.max() < TIME
    else:
        expected = np.stack(
            [episodic_reference.visits(numbers[0]), episodic_reference.visits(whole)[TIME:]]
        )
        np.testing.assert_array_equal(state.visits, np.bincount(whole.ravel(), minlength=STATES**2))
    np.testing.assert_allclose(paid, expected**-0.5, rtol=1e-6)


@pytest.mark.parametrize("episodic", [False, True])
@pytest.mark.parametrize("wrong", [-1, STATES**2])
def test_a_number_that_is_no_state_is_paid_nan_and_counted_nowhere(episodic, wrong):
    numbers = np.random.default_rng(0).integers(0, 3, (1, TIME, LANES))
    numbers[0, :, 0] = STATES**2 - 1
    numbers[0, 5, 0] = wrong
    ended = np.zeros(numbers.shape, bool)
    paid, state = pay(counts.CountsConfig(episodic=episodic), numbers, ended)
    np.testing.assert_array_equal(np.isnan(paid), numbers == wrong)
    assert np.sum(state.visits) == TIME * LANES - 1
    right = np.delete(paid[0, :, 0], 5)
    every = np.arange(1, TIME) if episodic else np.full(TIME - 1, TIME - 1)
    np.testing.assert_allclose(right, every**-0.5, rtol=1e-6)


def test_numbers_of_states_are_whole():
    with pytest.raises(ValueError, match="state_number is float32: give whole numbers from 0 to"):
        pay(counts.CountsConfig(), jnp.zeros((1, TIME, LANES)), np.zeros((1, TIME, LANES), bool))


def test_episodes_of_other_lanes_and_short_rings_are_refused():
    for lanes, stored, words in ((1, TIME * LANES, "1 lane but is shown"), (LANES, 3, "ring of 3")):
        bonus = counts.counts(counts.CountsConfig(episodic=True), stored)
        spec = registry.make(f"gymnax:DeepSea-bsuite-{STATES}").spec
        state = bonus.init(jax.random.key(0), spec, lanes)
        seen, ends = jnp.zeros((TIME, LANES, 1)), jnp.zeros((TIME, LANES), bool)
        step = Step(seen, seen, seen, ends, ends, jnp.zeros((TIME, LANES), jnp.int32))
        with pytest.raises(ValueError, match=words):
            bonus.observe_rollout(state, step)


def test_a_task_that_numbers_no_states_is_refused():
    bonus = counts.from_config(counts.CountsConfig(), 10)
    with pytest.raises(ValueError, match="gymnax:any does not number its states"):
        bonus.init(jax.random.key(0), TASKS["vectors"], 1)
