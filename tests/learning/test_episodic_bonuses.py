"""A2C explores with NovelD and counts from episode to episode, and with E3B and NGU within one."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.reward_free import reward_free
from re3_jax.envs.base import CountableStates
from re3_jax.intrinsic import counts, e3b, ngu, noveld
from re3_jax.training.on_policy import make_on_policy_program
from tests.probe_envs import corridor, line

LENGTH = 20
SIZES = {"latent_dim": 16, "hidden_dim": 32, "learning_rate": 1e-3}
LIFELONG = {
    "noveld": noveld.NovelDConfig(**SIZES, beta=1.0),
    "counts": counts.CountsConfig(beta=0.1),
}
EPISODIC = {
    "e3b": e3b.E3BConfig(**SIZES, beta=0.1),
    "ngu": ngu.NGUConfig(**SIZES, beta=0.1, normalize="running_std", neighbours=3),
    "counts": counts.CountsConfig(beta=0.1, episodic=True),
}
MODULES = {"e3b": e3b, "noveld": noveld, "ngu": ngu, "counts": counts}


def returns(env, num_places, config, name, options, env_frames, wrap=lambda learner: learner):
    """Of five seeds, before and after training."""
    states = CountableStates(lambda state: state[0], num_places, num_places)
    env = env._replace(spec=dataclasses.replace(env.spec, num_states=num_places), states=states)
    stored = config.num_envs * config.rollout_length
    bonus = MODULES[name].from_config(options, stored)
    program = make_on_policy_program(
        env,
        wrap(a2c.make_learner(config, env.spec, bonus)),
        chunk_updates=env_frames // stored,
        eval_episodes=16,
        eval_greedy=False,
    )
    state = program.init(jnp.arange(5))
    before = np.asarray(program.evaluate(state).return_mean)
    state, _ = program.train(state)
    return before, np.asarray(program.evaluate(state).return_mean)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIFELONG)
def test_the_end_of_a_corridor_is_found(name):
    """A corridor is walked by chance once in 2^20 tries."""
    config = A2CConfig(num_envs=8, rollout_length=8, bonus_target="reward", hidden_dim=32)
    before, after = returns(
        corridor(LENGTH), LENGTH + 1, config, name, LIFELONG[name], env_frames=38_400
    )
    np.testing.assert_array_equal(before, 0.0)
    assert after.min() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", EPISODIC)
def test_an_episode_goes_far_without_a_task(name):
    """The agent has no memory, so values of one episode's bonus depend on what it cannot see.

    Returns of whole episodes do not need such values: rollouts are as long as episodes.
    """
    config = A2CConfig(
        num_envs=8, rollout_length=2 * LENGTH, gae_lambda=1.0, bonus_target="reward",
        hidden_dim=32, learning_rate=3e-3,
    )  # fmt: skip
    before, after = returns(
        line(LENGTH), 2 * LENGTH + 1, config, name, EPISODIC[name], 12_800, reward_free
    )
    assert before.max() < 0.6
    assert after.min() > 0.75 and after.mean() > 0.85
