"""A2C and PPO solve problems whose best return is known."""

import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.ppo import learner as ppo
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.envs import registry
from re3_jax.intrinsic import RE3Config, from_config
from re3_jax.intrinsic.base import none
from re3_jax.training.on_policy import make_on_policy_program
from tests.probe_envs import aim, corridor, recall

PPO_SIZES = {"rollout_length": 32, "learning_rate": 3e-3}


def make(config, env, env_frames, bonus=None, eval_episodes=64, greedy=True):
    """A program that trains for so many env frames at once."""
    room = ppo if isinstance(config, PPOConfig) else a2c
    return make_on_policy_program(
        env,
        room.make_learner(config, env.spec, bonus or none()),
        chunk_updates=env_frames // (config.num_envs * config.rollout_length),
        eval_episodes=eval_episodes,
        eval_greedy=greedy,
    )


def returns(program, state):
    return np.asarray(program.evaluate(state).return_mean)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        A2CConfig(num_envs=16, rollout_length=8, learning_rate=3e-3, hidden_dim=32),
        PPOConfig(num_envs=16, hidden_dim=32, **PPO_SIZES),
    ],
    ids=["a2c", "ppo"],
)
def test_the_context_is_named(config):
    program = make(config, recall(4), 76_800)
    state = program.init(jnp.arange(3))
    assert np.all(returns(program, state) < 0.7)
    state, _ = program.train(state)
    assert np.all(returns(program, state) == 1.0)


def returns_in_a_corridor(config, bonus, env_frames, greedy):
    """Of five seeds, where random actions reach the end once in 2^20 tries."""
    program = make(config, corridor(20), env_frames, bonus, eval_episodes=16, greedy=greedy)
    state, _ = program.train(program.init(jnp.arange(5)))
    return returns(program, state)


RE3 = RE3Config(3, 3, ring_size=512, beta=0.1, normalize="running_std", latent_dim=16)


@pytest.mark.slow
def test_a2c_finds_the_end_of_a_corridor_with_re3_alone():
    config = A2CConfig(num_envs=8, rollout_length=8, bonus_target="reward", hidden_dim=32)
    for bonus, best in ((from_config(RE3), 1.0), (none(), 0.0)):
        np.testing.assert_array_equal(returns_in_a_corridor(config, bonus, 25_600, True), best)


@pytest.mark.slow
@pytest.mark.parametrize("recurrent", [True, False])
def test_ppo_remembers_with_a_gru_only(recurrent):
    """A bit is shown at first and asked for five steps later: 1 if right, -1 if wrong."""
    config = PPOConfig(num_envs=16, hidden_dim=32, recurrent=recurrent, **PPO_SIZES)
    program = make(config, registry.make("gymnax:MemoryChain-bsuite"), 61_440)
    state, _ = program.train(program.init(jnp.arange(3)))
    found = returns(program, state)
    assert np.all(found == 1.0) if recurrent else np.all(np.abs(found) < 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("intrinsic_value_head", [False, True])
def test_ppo_finds_the_end_of_a_corridor_with_re3(intrinsic_value_head):
    """Without a bonus the noise in normalised advantages makes some seeds go right for ever."""
    config = PPOConfig(
        num_envs=8, hidden_dim=32, intrinsic_value_head=intrinsic_value_head, **PPO_SIZES
    )
    assert np.all(returns_in_a_corridor(config, from_config(RE3), 12_800, False) > 0.9)
    assert np.mean(returns_in_a_corridor(config, none(), 12_800, False)) < 0.6


@pytest.mark.slow
def test_ppo_hits_the_target():
    config = PPOConfig(
        num_envs=16, hidden_dim=32, normalize_observations=True, scaled_rewards="all", **PPO_SIZES
    )
    program = make(config, aim(5), 40_960)
    state = program.init(jnp.arange(2))
    assert np.all(returns(program, state) < -1.0)
    state, _ = program.train(state)
    assert np.all(returns(program, state) > -0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        A2CConfig(bootstrap_truncation=True),
        PPOConfig(num_envs=8, learning_rate=1e-3, bootstrap_truncation=True),
    ],
    ids=["a2c", "ppo"],
)
def test_the_cart_pole_is_balanced(config):
    program = make(config, registry.make("gymnax:CartPole-v1"), 384_000, eval_episodes=32)
    state = program.init(jnp.arange(3))
    assert np.median(returns(program, state)) < 200
    state, _ = program.train(state)
    assert np.median(returns(program, state)) >= 475  # of at most 500
