"""A2C reaches the end of a corridor with NovelD and with counts, where random actions never do."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.envs.base import CountableStates
from re3_jax.intrinsic import counts, noveld
from re3_jax.training.on_policy import make_on_policy_program
from tests.probe_envs import corridor

LENGTH, ENV_FRAMES = 20, 38_400
CONFIG = A2CConfig(num_envs=8, rollout_length=8, bonus_target="reward", hidden_dim=32)
STORED = CONFIG.num_envs * CONFIG.rollout_length
SIZES = {"latent_dim": 16, "hidden_dim": 32, "learning_rate": 1e-3}
BONUSES = {
    "noveld": noveld.from_config(noveld.NovelDConfig(**SIZES, beta=1.0), STORED),
    "counts": counts.from_config(counts.CountsConfig(beta=0.1), STORED),
}


def numbered_corridor():
    """Numbered by how far the agent is."""
    env = corridor(LENGTH)
    states = CountableStates(lambda state: state[0], LENGTH + 1, LENGTH)
    return env._replace(
        spec=dataclasses.replace(env.spec, num_states=states.num_counted), states=states
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", BONUSES)
def test_a2c_finds_the_end_of_a_corridor(name):
    """On five seeds; a corridor is walked by chance once in 2^20 tries."""
    env = numbered_corridor()
    program = make_on_policy_program(
        env,
        a2c.make_learner(CONFIG, env.spec, BONUSES[name]),
        chunk_updates=ENV_FRAMES // STORED,
        eval_episodes=16,
        eval_greedy=True,
    )
    state, _ = program.train(program.init(jnp.arange(5)))
    found = np.asarray(program.evaluate(state).return_mean)
    np.testing.assert_array_equal(found, 1.0)
