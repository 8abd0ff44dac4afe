"""SAC on states solves problems whose best return is known."""

import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.learner import make_learner
from re3_jax.envs import registry
from re3_jax.intrinsic.base import none
from re3_jax.training.off_policy import make_off_policy_program
from tests.probe_envs import aim

CONFIG = SACConfig(
    hidden_dim=64,
    batch_size=64,
    replay_capacity=20_000,
    initial_agent_steps=500,
    actor_learning_rate=1e-3,
    critic_learning_rate=1e-3,
    num_envs=4,
    updates_per_step=4,
)


def make(env, chunk_steps):
    return make_off_policy_program(
        env,
        make_learner(CONFIG, env.spec, none()),
        chunk_steps=chunk_steps,
        eval_episodes=20,
        eval_greedy=True,
    )


@pytest.mark.slow
@pytest.mark.learning
def test_sac_hits_the_target():
    program = make(aim(5), 500)
    state = program.init(jnp.arange(2))
    assert np.all(np.asarray(program.evaluate(state).return_mean) < -1.0)
    state, _ = program.train(state)
    assert np.all(np.asarray(program.evaluate(state).return_mean) > -0.1)


@pytest.mark.slow
@pytest.mark.learning
def test_sac_swings_the_pendulum_up():
    program = make(registry.make("gymnax:Pendulum-v1"), 3000)
    state = program.init(jnp.arange(2))
    assert np.all(np.asarray(program.evaluate(state).return_mean) < -800.0)
    state, _ = program.train(state)
    # 12,000 agent steps; a pendulum that is upright from the start earns about 0.
    assert np.all(np.asarray(program.evaluate(state).return_mean) > -250.0)
