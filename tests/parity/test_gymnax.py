"""gymnax through the device contract, against gymnax itself and against Farama's gymnasium."""

from functools import partial

import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs.base import Box, Discrete
from re3_jax.envs.checking import check_env
from re3_jax.envs.device import gymnax as adapter

NEEDS_DOWNLOAD = {"MNISTBandit-bsuite"}
NUM_STEPS = 1200


def rollout(env, policy, key, num_steps):
    """Steps one environment; returns states and observations before each step, actions, steps."""

    def body(carry, key):
        state, observation = carry
        action_key, step_key = jax.random.split(key)
        action = policy(observation, action_key)
        after, time_step = env.step(state, action, step_key)
        return (after, time_step.observation), (state, observation, action, time_step)

    @jax.jit
    def run(key):
        reset_key, steps_key = jax.random.split(key)
        return jax.lax.scan(body, env.reset(reset_key), jax.random.split(steps_key, num_steps))[1]

    return jax.device_get(run(key))


def balance(observation, key):
    """Keeps CartPole upright until the time limit."""
    return (observation @ jnp.array([0.1, 0.3, 3.0, 1.0]) > 0).astype(jnp.int32)


def random_discrete(num_actions, observation, key):
    return jax.random.randint(key, (), 0, num_actions)


def random_box(observation, key):
    return jax.random.uniform(key, (1,), jnp.float32, -1.0, 1.0)


def push_along(observation, key):
    """Takes the mountain car up the hill."""
    return jnp.where(observation[1:] >= 0, 0.9, -0.9)


BOUND = {"Pendulum-v1": 2.0}
"""gymnax's actions are in [-BOUND, BOUND] where they are continuous."""


CASES = [
    ("CartPole-v1", balance),
    ("CartPole-v1", partial(random_discrete, 2)),
    ("MountainCar-v0", partial(random_discrete, 3)),
    ("Pendulum-v1", random_box),
    ("MountainCarContinuous-v0", push_along),
]
"""Together: both kinds of action, episodes that terminate and episodes that are truncated."""


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_every_step_equals_gymnax(name, policy):
    env = adapter.make(name)
    states, _, actions, ours = rollout(env, policy, jax.random.key(7), NUM_STEPS)
    assert (ours.terminated | ours.truncated).sum() >= 2
    theirs, params = gymnax.make(name)
    steps_key = jax.random.split(jax.random.key(7))[1]
    keys = jax.vmap(lambda key: jax.random.split(key)[1])(jax.random.split(steps_key, NUM_STEPS))
    observation, after, reward, terminated, truncated, info = jax.vmap(
        lambda key, state, action: theirs.step(key, state, action, params)
    )(keys, states, actions * BOUND.get(name, 1))
    np.testing.assert_array_equal(ours.terminated, terminated)
    np.testing.assert_array_equal(ours.truncated, truncated)
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    close(ours.reward, reward)
    close(ours.observation, observation)
    close(ours.final_observation, info["final_observation"])
    later = jax.tree.map(lambda leaf: leaf[1:], states)
    jax.tree.map(lambda mine, other: close(mine, other[:-1]), later, after)


def test_an_observation_of_one_number_is_a_vector():
    env, (theirs, params) = adapter.make("FrozenLake-misc"), gymnax.make("FrozenLake-misc")
    assert env.spec.observation_shape == (1,)
    key = jax.random.key(0)
    assert env.reset(key)[1].tolist() == [float(theirs.reset(key, params)[0])]
    assert check_env(env).shape == (4,)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in adapter.TASKS if "MinAtar" in name])
def test_minatar_is_planes_of_zeros_and_ones(name):
    env, (theirs, params) = adapter.make(name), gymnax.make(name)
    policy = partial(random_discrete, env.spec.action_space.num_actions)
    states, observations, _, _ = rollout(env, policy, jax.random.key(7), 300)
    raw = np.asarray(jax.vmap(lambda state: theirs.get_obs(state, params))(states))
    assert observations.dtype == env.spec.observation_dtype == np.dtype(bool)
    assert set(np.unique(raw)) <= {0, 1}
    np.testing.assert_array_equal(observations, raw)


# gymnax's continuous mountain car keeps its velocity at the left wall, where gymnasium's stops.
@pytest.mark.parametrize(("name", "policy"), CASES[:-1])
def test_every_step_equals_gymnasium(name, policy):
    env = adapter.make(name)
    _, observations, actions, ours = rollout(env, policy, jax.random.key(7), NUM_STEPS)
    oracle = gymnasium.make(name)
    oracle.reset(seed=0)
    for t in range(NUM_STEPS):
        put_state(oracle.unwrapped, name, observations[t])
        last, reward, terminated, truncated, _ = oracle.step(actions[t] * BOUND.get(name, 1))
        np.testing.assert_allclose(ours.final_observation[t], last, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours.reward[t], reward, rtol=1e-4, atol=1e-5)
        assert (ours.terminated[t], ours.truncated[t]) == (terminated, truncated)
        if terminated or truncated:
            oracle.reset()


def put_state(oracle, name, observation):
    """Copies our state into gymnasium's environment, so that float32 and float64 do not diverge."""
    observation = observation.astype(np.float64)
    if name == "Pendulum-v1":
        cosine, sine, velocity = observation
        oracle.state = np.array([np.arctan2(sine, cosine), velocity])
    else:
        oracle.state = observation


def test_a_time_limit_truncates_and_does_not_terminate():
    _, _, _, steps = rollout(adapter.make("CartPole-v1"), balance, jax.random.key(0), NUM_STEPS)
    np.testing.assert_array_equal(np.flatnonzero(steps.truncated), [499, 999])
    assert not steps.terminated.any()
    _, _, _, steps = rollout(adapter.make("Pendulum-v1"), random_box, jax.random.key(0), 450)
    np.testing.assert_array_equal(np.flatnonzero(steps.truncated), [199, 399])
    assert not steps.terminated.any()


def test_final_observation_belongs_to_the_episode_that_ended():
    env = adapter.make("CartPole-v1")
    _, before, _, steps = rollout(env, partial(random_discrete, 2), jax.random.key(3), 400)
    ends = np.flatnonzero(steps.terminated)
    assert len(ends) > 5
    position, angle = np.abs(steps.final_observation[ends][:, [0, 2]]).T
    assert ((position > 2.4) | (angle > 12 * 2 * np.pi / 360)).all()
    assert (np.abs(steps.observation[ends]) <= 0.05).all()
    within = np.setdiff1d(np.arange(400), ends)
    np.testing.assert_array_equal(steps.final_observation[within], steps.observation[within])
    np.testing.assert_array_equal(before[1:], steps.observation[:-1])


def test_deep_sea_ends_and_reaches_its_limit_at_the_same_step():
    env = adapter.make("DeepSea-bsuite")
    _, _, _, steps = rollout(env, partial(random_discrete, 2), jax.random.key(0), 32)
    np.testing.assert_array_equal(np.flatnonzero(steps.terminated), [7, 15, 23, 31])
    np.testing.assert_array_equal(steps.terminated, steps.truncated)


def test_the_size_of_deep_sea():
    spec = adapter.make("DeepSea-bsuite-20").spec
    assert (spec.observation_shape, spec.max_agent_steps) == ((20, 20), 20)
    assert spec.task == "gymnax:DeepSea-bsuite-20"
    with pytest.raises(ValueError, match="unknown gymnax task 'DeepSea-bsuite-0'"):
        adapter.make("DeepSea-bsuite-0")


def test_tasks_are_those_of_gymnax():
    assert set(adapter.TASKS) == set(gymnax.registered_envs)


@pytest.mark.parametrize("name", sorted(set(adapter.TASKS) - NEEDS_DOWNLOAD))
def test_specification_holds_and_the_state_can_be_scanned(name):
    env = adapter.make(name)
    lanes, length = 3, 2

    def run(key):
        state, observation = jax.vmap(env.reset)(jax.random.split(key, lanes))

        def body(state, key):
            state, time_step = jax.vmap(env.step)(state, action, jax.random.split(key, lanes))
            return state, time_step

        match env.spec.action_space:
            case Discrete():
                action = jnp.zeros(lanes, jnp.int32)
            case Box(shape=shape):
                action = jnp.zeros((lanes, *shape), jnp.float32)
        after, steps = jax.lax.scan(body, state, jax.random.split(key, length))
        return state, after, observation, steps

    state, after, observation, steps = jax.eval_shape(run, jax.random.key(0))
    expected = (lanes, *env.spec.observation_shape)
    assert observation.shape == expected
    assert observation.dtype == env.spec.observation_dtype == steps.observation.dtype
    assert steps.observation.shape == steps.final_observation.shape == (length, *expected)
    assert steps.reward.dtype == jnp.float32
    assert steps.terminated.dtype == steps.truncated.dtype == jnp.bool
    assert jax.tree.structure(state) == jax.tree.structure(after)
    for leaf in jax.tree.leaves((state, after)):
        assert not leaf.weak_type
    assert env.spec.max_agent_steps > 0


@pytest.mark.parametrize(
    ("game", "limit", "episodes"), [("SpaceInvaders", 1000, 1), ("Breakout", 1000, 2)]
)
def test_what_is_random_in_minatar(game, limit, episodes):
    """One sequence of actions from twelve keys, up to the first end: docs/environments.md."""
    env = adapter.make(f"{game}-MinAtar")
    actions = np.random.default_rng(0).integers(0, env.spec.action_space.num_actions, 120)

    @jax.jit
    @jax.vmap
    def play(key):
        def body(state, inputs):
            state, step = env.step(state, *inputs)
            return state, (step.final_observation, step.terminated)

        keys = jax.random.split(key, len(actions))
        return jax.lax.scan(body, env.reset(key)[0], (jnp.asarray(actions), keys))[1]

    seen, ended = jax.device_get(play(jax.random.split(jax.random.key(0), 12)))
    ends = [int(np.argmax(one)) + 1 if one.any() else len(one) for one in ended]
    found = {one[:end].tobytes() for one, end in zip(seen, ends, strict=True)}
    assert len(found) == episodes and env.spec.max_agent_steps == limit
    assert adapter.make("Freeway-MinAtar").spec.max_agent_steps == 2500


def test_the_arms_of_simple_bandit_are_others_in_every_episode():
    env = adapter.make("SimpleBandit-bsuite")

    @jax.vmap
    def pulled(key):
        return env.step(env.reset(key)[0], jnp.int32(3), key)[1]

    steps = pulled(jax.random.split(jax.random.key(0), 40))
    assert steps.terminated.all() and len(np.unique(steps.reward)) > 5
