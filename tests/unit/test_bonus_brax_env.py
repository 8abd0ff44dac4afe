"""brax environments with a bonus: against a loop by hand, and inside brax's own training."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import compilation
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.intrinsic import RE3Config, e3b, from_config, icm, reward_rollout
from re3_jax.intrinsic.base import Step
from tests.equal import equal_arrays
from tests.prediction_tasks import SIZES

LANES, STEPS, LIMIT = 3, 12, 4
RE3 = from_config(RE3Config(3, 3, ring_size=64, latent_dim=4, beta=0.5, rho=0.02, log1p=False))
ICM = icm.from_config(icm.ICMConfig(**SIZES, beta=1.0))
E3B = e3b.from_config(e3b.E3BConfig(**SIZES, beta=1.0), LANES)


@pytest.fixture(scope="module")
def brax_env():
    """Imported when it is needed: brax takes seconds, and every worker collects all tests."""
    from re3_jax.interop import brax_env

    return brax_env


@pytest.fixture
def line(brax_env):
    class Line(brax_env.envs.Env):
        """A place and the steps taken; ends where the place is above 1."""

        observation_size, action_size, backend = 2, 1, "none"

        def reset(self, rng):
            place = jax.random.uniform(rng)
            return brax_env.envs.State(None, jnp.stack([place, 0.0]), jnp.zeros(()), jnp.zeros(()))

        def step(self, state, action):
            after = state.obs + jnp.stack([0.5 * action[0], 1.0])
            done = (after[0] > 1.0).astype(jnp.float32)
            return state.replace(obs=after, reward=after[1], done=done)

    return Line()


def played(env):
    """All states of `STEPS` steps with pushes of different strength."""
    states = [jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(3), LANES))]
    step = compilation.jit(env.step)
    for t in range(STEPS):
        action = jnp.sin(jnp.arange(LANES) + t + 1.0)[:, None]
        states.append(step(states[-1], action))
    return states


def test_the_options_of_a_bonus_are_no_bonus(brax_env, line):
    with pytest.raises(TypeError, match="bonus is a RE3Config: give an IntrinsicReward"):
        brax_env.wrap(line, bonus=RE3Config())


def test_typed_keys_begin_the_same_as_bare_ones(brax_env, line):
    env = brax_env.wrap(line, LIMIT, bonus=RE3)
    reset, step = jax.jit(env.reset), compilation.jit(env.step)
    bare, typed = (
        step(reset(jax.random.split(of(3), LANES)), jnp.zeros((LANES, 1)))
        for of in (jax.random.PRNGKey, jax.random.key)
    )
    jax.tree.map(equal_arrays, bare, typed)


def test_keys_of_another_generator_begin_lanes_of_their_own(brax_env, line):
    env = brax_env.wrap(line, LIMIT, bonus=RE3)
    keys = jax.random.split(jax.random.key(3, impl="rbg"), LANES)
    state = jax.jit(env.reset)(keys)
    assert len(np.unique(state.obs[:, 0])) == LANES
    others = jax.jit(env.reset)(keys.at[1:].set(keys[:0:-1])).obs
    np.testing.assert_array_equal((others == state.obs).all(1), [True, False, False])
    state = compilation.jit(env.step)(state, jnp.zeros((LANES, 1)))
    assert (state.metrics["intrinsic_reward"] > 0).all()


@pytest.mark.parametrize(
    "bonus", [*(pytest.param(x, marks=pytest.mark.slow) for x in (RE3, ICM)), E3B]
)
def test_rewards_are_those_of_a_loop_by_hand(brax_env, line, bonus):
    """Observations of the end of an episode included, which brax's auto-reset hides.

    E3B begins anew with each episode, however it ended.
    """
    with_bonus = played(brax_env.wrap(line, LIMIT, bonus=bonus))
    plain = played(brax_env.envs.training.wrap(line, LIMIT))
    spec = EnvSpec("any", (2,), np.dtype(np.float32), Box((1,), -1.0, 1.0), LIMIT)
    pay = compilation.jit(partial(reward_rollout, bonus))
    # The wrapper draws its bonus from the first lane's key.
    first = jax.random.wrap_key_data(jax.random.split(jax.random.PRNGKey(3), LANES)[0])
    stream = jax.random.fold_in(first, brax_env.BONUS_STREAM)
    init_key, stream = jax.random.split(stream)
    intrinsic = compilation.jit(lambda key: bonus.init(key, spec, LANES))(init_key)
    ends = []
    for t, (before, after, told) in enumerate(zip(plain, plain[1:], with_bonus[1:], strict=False)):
        action = np.asarray(jnp.sin(jnp.arange(LANES) + t + 1.0))[:, None]
        moved = np.stack([np.float32(0.5) * action[:, 0], np.ones(LANES, np.float32)], axis=1)
        following = np.asarray(before.obs) + moved
        terminated = following[:, 0] > 1.0
        truncated = (following[:, 1] >= LIMIT) & ~terminated
        ends.append((terminated.any(), truncated.any()))
        step = Step(before.obs, action, following, terminated, truncated)
        stream, key = jax.random.split(stream)
        rollout = jax.tree.map(lambda leaf: leaf[None], step)
        paid, intrinsic, _ = pay(intrinsic, rollout, np.int32(t * LANES), key)
        np.testing.assert_array_equal(after.done, terminated | truncated)
        np.testing.assert_array_equal(told.obs, after.obs)
        np.testing.assert_array_equal(told.metrics["task_reward"], after.reward)
        np.testing.assert_allclose(told.metrics["intrinsic_reward"], paid[0], rtol=2e-5, atol=1e-6)
        np.testing.assert_array_equal(
            told.reward, told.metrics["task_reward"] + told.metrics["intrinsic_reward"]
        )
    assert np.any(ends, axis=0).all()
    assert told.info["bonus_state"][2] == STEPS * LANES
    assert np.any(told.metrics["intrinsic_reward"])


def test_an_episode_of_repeated_actions_has_fewer_agent_steps(brax_env, line):
    told = []
    bonus = RE3._replace(
        init=lambda key, spec, lanes: told.append(spec) or RE3.init(key, spec, lanes)
    )
    env = brax_env.wrap(line, 5, 2, bonus=bonus)
    jax.eval_shape(env.reset, jax.random.split(jax.random.PRNGKey(3), LANES))
    assert [spec.max_agent_steps for spec in told] == [3]


def test_observations_that_are_no_vectors_are_refused(brax_env, line):
    line.observation_size = {"state": 2}
    with pytest.raises(ValueError, match="a bonus needs observations that are vectors, but these"):
        brax_env.wrap(line, bonus=RE3)


@pytest.mark.slow
def test_a_task_of_brax_is_wrapped(brax_env):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = brax_env.envs.get_environment("inverted_pendulum", backend="generalized")
        env = brax_env.wrap(task, bonus=RE3)
        state = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(0), LANES))
        step = jax.jit(env.step)
        for _ in range(3):
            state = step(state, jnp.ones((LANES, env.action_size)))
    assert (state.metrics["intrinsic_reward"] > 0).all()
    np.testing.assert_array_equal(
        state.reward, state.metrics["task_reward"] + state.metrics["intrinsic_reward"]
    )


def test_steps_are_counted_up_to_the_last_that_can_be(brax_env, line):
    """One more would be negative, and a beta that decays infinite."""
    env = brax_env.BonusEnv(brax_env.envs.training.EpisodeWrapper(
        brax_env.envs.training.VmapWrapper(line), LIMIT, 1), RE3, LIMIT)  # fmt: skip
    state = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(3), LANES))
    intrinsic, stream, _ = state.info["bonus_state"]
    most = np.iinfo(np.int32).max
    late = intrinsic, stream, jnp.int32(most - 1)
    state = state.replace(info={**state.info, "bonus_state": late})
    after = compilation.jit(env.step)(state, jnp.zeros((LANES, 1)))
    assert after.info["bonus_state"][2] == most
