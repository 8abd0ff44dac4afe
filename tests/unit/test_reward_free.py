"""Without the task reward: what an agent learns does not depend on it, what is recorded does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.a2c.agent import make_a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.reward_free import reward_free
from re3_jax.agents.rollout import Rollout
from re3_jax.agents.sac.agent import make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.transitions import Transitions
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.re3 import RE3Config, from_config
from re3_jax.training.off_policy_loop import make_off_policy_program
from re3_jax.training.seeds import make_program
from tests.probe_envs import aim, countdown

FACTOR = 100.0
SEEDS = jnp.arange(1, dtype=jnp.int32)
RE3 = RE3Config(ring_size=64, beta=1.0, latent_dim=8)
A2C = A2CConfig(num_envs=2, rollout_length=4, hidden_dim=8)
SAC = SACConfig(
    augmentation="none",
    hidden_dim=8,
    batch_size=8,
    replay_capacity=64,
    initial_agent_steps=10,
)
EVALUATION = {"eval_episodes": 2, "eval_greedy": False}


def paying(env):
    """The same environment; its state begins with the factor that rewards are multiplied by."""

    def reset(key):
        state, observation = env.reset(key)
        return (jnp.float32(1), state), observation

    def step(state, action, key):
        after, timestep = env.step(state[1], action, key)
        return (state[0], after), timestep._replace(reward=state[0] * timestep.reward)

    return DeviceEnv(env.spec, reset, step)


def on_policy():
    env = paying(countdown(4))
    agent = reward_free(make_a2c(A2C, env.spec))
    numbers = {"num_envs": 2, "rollout_length": 4, "chunk_updates": 5}
    return make_program(env, agent, from_config(RE3), **numbers, **EVALUATION)


def off_policy():
    env = paying(aim(4))
    agent = reward_free(make_sac(SAC, env.spec))
    numbers = {"num_envs": 1, "batch_size": 8, "replay_capacity": 64, "initial_agent_steps": 10}
    return make_off_policy_program(
        env, agent, from_config(RE3), **numbers, updates_per_step=1, chunk_steps=20, **EVALUATION
    )


def with_factor(lanes, factor):
    env = lanes.env[0] * factor, lanes.env[1]
    return lanes._replace(env=env)


@pytest.mark.parametrize("make", [on_policy, off_policy])
def test_the_task_reward_is_recorded_and_teaches_nothing(make):
    program, found = make(), []
    for factor in (1.0, FACTOR):
        state = program.init(SEEDS)
        before = jax.tree.map(np.asarray, state.agent)
        if make is on_policy:
            state = state._replace(lanes=with_factor(state.lanes, factor))
        else:
            lanes = state.lanes._replace(lanes=with_factor(state.lanes.lanes, factor))
            state = state._replace(lanes=lanes)
        state, metrics = program.train(state)
        found.append((jax.device_get(state.agent), jax.device_get(metrics)))
    (learned, metrics), (learned_more, metrics_more) = found
    pairs = zip(*(jax.tree.leaves(state) for state in (learned, learned_more)), strict=True)
    assert all(ours.tobytes() == theirs.tobytes() for ours, theirs in pairs)
    pairs = zip(*(jax.tree.leaves(state) for state in (learned, before)), strict=True)
    assert not all(ours.tobytes() == theirs.tobytes() for ours, theirs in pairs)
    for name in ("reward_mean", "episode_return_mean"):
        np.testing.assert_allclose(FACTOR * metrics[name], metrics_more[name], rtol=1e-5)
        assert np.abs(metrics[name]).min() > 0
    assert (metrics["intrinsic_reward_mean"] > 0).all()


def rollout(reward):
    shape, key = (4, 2), jax.random.key(1)
    flags = jnp.zeros(shape, bool)
    return Rollout(
        observation=jax.random.normal(key, (*shape, 5)),
        action=jax.random.randint(key, shape, 0, 2),
        reward=jnp.full(shape, reward),
        bonus=jax.random.uniform(key, shape),
        terminated=flags,
        truncated=flags,
        next_observation=jax.random.normal(key, (*shape, 5)),
        last_observation=jax.random.normal(key, (2, 5)),
    )


def transitions(reward):
    key = jax.random.key(1)
    return Transitions(
        observation=jax.random.normal(key, (8, 2)),
        action=jax.random.uniform(key, (8, 1)),
        reward=jnp.full(8, reward),
        bonus=jax.random.uniform(key, (8,)),
        discount=jnp.ones(8),
        next_observation=jax.random.normal(key, (8, 2)),
    )


@pytest.mark.parametrize(
    ("agent", "batch"),
    [(make_a2c(A2C, countdown(4).spec), rollout), (make_sac(SAC, aim(4).spec), transitions)],
    ids=["a2c", "sac"],
)
def test_one_update_is_that_from_a_reward_of_zero(agent, batch):
    """In every phase of the agent, and otherwise than from a reward that is seen."""
    free, key = reward_free(agent), jax.random.key(2)
    assert len(free.phases) == len(agent.phases)
    state = agent.init(jax.random.key(3))
    phases = zip(free.phases or (free.update,), agent.phases or (agent.update,), strict=True)
    for ours, theirs in phases:
        paid, withheld = jax.jit(theirs), jax.jit(ours)
        found = jax.tree.leaves(withheld(state, batch(5.0), key))
        unpaid = jax.tree.leaves(paid(state, batch(0.0), key))
        assert all(np.array_equal(a, b) for a, b in zip(found, unpaid, strict=True))
        seen = jax.tree.leaves(paid(state, batch(5.0), key))
        assert not all(np.array_equal(a, b) for a, b in zip(found, seen, strict=True))
