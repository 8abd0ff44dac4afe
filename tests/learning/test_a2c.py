"""A2C solves problems whose best return is known."""

import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.a2c.learner import make_learner
from re3_jax.envs import registry
from re3_jax.intrinsic import RE3Config, from_config
from re3_jax.intrinsic.base import none
from re3_jax.training.on_policy import make_on_policy_program
from tests.probe_envs import corridor, recall

pytestmark = pytest.mark.slow


def test_a2c_names_the_context():
    env = recall(4)
    config = A2CConfig(num_envs=16, rollout_length=8, learning_rate=3e-3, hidden_dim=32)
    program = make_on_policy_program(
        env, make_learner(config, env.spec, none()),
        chunk_updates=600, eval_episodes=64, eval_greedy=True,
    )  # fmt: skip
    state = program.init(jnp.arange(3))
    assert np.all(np.asarray(program.evaluate(state).return_mean) < 0.7)
    state, _ = program.train(state)
    assert np.all(np.asarray(program.evaluate(state).return_mean) == 1.0)


def greedy_returns(bonus):
    """Returns of five seeds on a corridor that random actions pass once in 2^20 tries."""
    env = corridor(20)
    config = A2CConfig(num_envs=8, rollout_length=8, bonus_target="reward", hidden_dim=32)
    program = make_on_policy_program(
        env, make_learner(config, env.spec, bonus),
        chunk_updates=400, eval_episodes=8, eval_greedy=True,
    )  # fmt: skip
    state, _ = program.train(program.init(jnp.arange(5)))
    return np.asarray(program.evaluate(state).return_mean)


def test_re3_finds_the_end_of_a_corridor_and_no_bonus_does_not():
    re3 = RE3Config(3, 3, ring_size=512, beta=0.1, normalize="running_std", latent_dim=16)
    np.testing.assert_array_equal(greedy_returns(from_config(re3)), 1.0)
    np.testing.assert_array_equal(greedy_returns(none()), 0.0)


def test_a2c_balances_the_cart_pole():
    env = registry.make("gymnax:CartPole-v1")
    config = A2CConfig(bootstrap_truncation=True)
    program = make_on_policy_program(
        env, make_learner(config, env.spec, none()),
        chunk_updates=3000, eval_episodes=32, eval_greedy=True,
    )  # fmt: skip
    state = program.init(jnp.arange(3))
    assert np.all(np.asarray(program.evaluate(state).return_mean) < 200)
    state, _ = program.train(state)
    assert np.median(program.evaluate(state).return_mean) >= 475  # of at most 500
