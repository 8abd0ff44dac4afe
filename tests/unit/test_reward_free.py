"""Training without the task reward: it changes what is recorded but not what is learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.reward_free import reward_free
from re3_jax.agents.sac import learner as sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.re3 import RE3Config, from_config
from re3_jax.training.off_policy import make_off_policy_program
from re3_jax.training.on_policy import make_on_policy_program
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
RAINBOW = RainbowConfig(
    torso="mlp",
    hidden_dim=8,
    num_atoms=5,
    n_steps=1,
    batch_size=8,
    replay_capacity=64,
    initial_agent_steps=10,
    agent_steps_per_update=1,
    num_envs=1,
    noisy=False,
    epsilon=0.5,
)
EVALUATION = {"eval_episodes": 2, "eval_greedy": False}


def paying(env):
    """The same environment; the first field of its state is a factor on its rewards."""

    def reset(key):
        state, observation = env.reset(key)
        return (jnp.float32(1), state), observation

    def step(state, action, key):
        after, timestep = env.step(state[1], action, key)
        return (state[0], after), timestep._replace(reward=state[0] * timestep.reward)

    return DeviceEnv(env.spec, reset, step)


def on_policy():
    env = paying(countdown(4))
    learner = reward_free(a2c.make_learner(A2C, env.spec, from_config(RE3)))
    return make_on_policy_program(env, learner, chunk_updates=5, **EVALUATION)


def off_policy():
    env = paying(aim(4))
    learner = reward_free(sac.make_learner(SAC, env.spec, from_config(RE3)))
    return make_off_policy_program(env, learner, chunk_steps=20, **EVALUATION)


def prioritised():
    env = paying(countdown(4))
    learner = reward_free(rainbow.make_learner(RAINBOW, env.spec, from_config(RE3)))
    return make_off_policy_program(env, learner, chunk_steps=20, **EVALUATION)


def with_factor(lanes, factor):
    env = lanes.env[0] * factor, lanes.env[1]
    return lanes._replace(env=env)


@pytest.mark.parametrize("make", [on_policy, off_policy, prioritised])
def test_the_task_reward_is_recorded_and_teaches_nothing(make):
    program, found = make(), []
    for factor in (1.0, FACTOR):
        state = program.init(SEEDS)
        before = jax.tree.map(np.asarray, state.agent)
        state = state._replace(lanes=with_factor(state.lanes, factor))
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
