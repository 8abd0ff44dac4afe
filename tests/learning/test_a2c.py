"""A2C learns what it must on problems whose best return is known."""

import jax.numpy as jnp
import numpy as np

from re3_jax.agents.a2c.agent import make_a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.intrinsic.base import none
from re3_jax.training.seeds import make_program
from tests.probe_envs import recall


def test_a2c_names_the_context():
    env = recall(4)
    config = A2CConfig(num_envs=16, rollout_length=8, learning_rate=3e-3, hidden_dim=32)
    program = make_program(
        env, make_a2c(config, env.spec), none(), num_envs=16, rollout_length=8,
        chunk_updates=600, eval_episodes=64, eval_greedy=True,
    )  # fmt: skip
    state = program.init(jnp.arange(3))
    assert np.all(np.asarray(program.evaluate(state).return_mean) < 0.7)
    state, _ = program.train(state)
    assert np.all(np.asarray(program.evaluate(state).return_mean) == 1.0)
