"""PPO's GRU: what acting remembers is what learning computes again, and where both forget."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.ppo import networks
from re3_jax.agents.ppo.agent import make_ppo
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.learner import make_learner
from re3_jax.agents.ppo.memory import past_of
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic.base import none
from re3_jax.networks import conv_stack
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.host_rollout import whole
from re3_jax.training.on_policy import init_state, roll_out
from tests.probe_envs import countdown
from tests.probe_host_env import EPISODE, DotLanes, spec

SIZES = {"num_envs": 2, "num_minibatches": 2, "hidden_dim": 8, "recurrent": True}


def hidden_after(params, rollout):
    """Of each lane after each step, from what the lanes carried before the rollout."""
    steps = rollout.reward.size
    observation = rollout.observation.reshape(steps, *rollout.observation.shape[2:])
    found = jax.jit(networks.features)(params, observation, past_of(rollout))
    return np.asarray(found).reshape(*rollout.reward.shape, -1)


@pytest.mark.parametrize("length", [7, 10])
def test_a_rollout_gives_the_hidden_states_that_acted(length):
    """Episodes of 5 steps, so the second length ends with one and the first does not."""
    env, config = countdown(5), PPOConfig(rollout_length=length, **SIZES)
    learner = make_learner(config, env.spec, none())
    state = jax.jit(lambda key: init_state(env, learner, key))(jax.random.key(0))
    step = jax.jit(lambda state, key: roll_out(env, learner, state, key)[:2])
    state, _ = step(state, jax.random.key(1))
    state, rollout = step(state, jax.random.key(2))
    after = hidden_after(state.agent.params, rollout)
    ended = np.asarray(rollout.done[-1])
    assert ended.all() == (length == 10)
    expected = np.where(ended[:, None], 0.0, after[-1])
    np.testing.assert_allclose(state.memory.hidden, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(after).min() > 0
    # The same observation means something else later in the episode only through the memory.
    alone = hidden_after(
        state.agent.params,
        rollout._replace(terminated=jnp.ones_like(rollout.done)),
    )
    first = np.concatenate([np.zeros((1, 2), bool), np.asarray(rollout.done[:-1])])
    np.testing.assert_allclose(alone[first], after[first], rtol=1e-5, atol=1e-6)
    assert np.abs(alone - after)[1:][~first[1:]].max() > 1e-3
    agent = make_ppo(config, env.spec)
    value = agent.value(state.agent, rollout.observation.reshape(2 * length, -1), past_of(rollout))
    expected = networks.values(state.agent.params, after.reshape(2 * length, -1))[:, 0]
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)


def test_lanes_of_the_host_remember_as_well():
    config = PPOConfig(rollout_length=20, **SIZES)
    learner = make_learner(config, spec(), none())
    numbers = {"chunk_agent_steps": EPISODE + 4, "eval_episodes": 2, "eval_greedy": True}
    program = HostProgram(learner, DotLanes, seeds=[1], **numbers)
    state = program.init(jnp.asarray([1], jnp.int32))
    program.compile(state)
    state, _ = program.train(state)
    one = jax.tree.map(lambda leaf: leaf[0], (state.agent.params, state.replay, state.memory))
    params, stored, memory = one
    after = hidden_after(params, whole(learner, stored))[EPISODE + 3]
    np.testing.assert_allclose(memory.hidden, after, rtol=1e-5, atol=1e-6)
    assert np.abs(after).max() > 1e-3
    assert program.start_evaluation(state)().length_mean[0] == EPISODE


@pytest.mark.parametrize("shape", [(5,), (36, 36, 1), (10, 10, 4)])
def test_actor_and_critic_are_linear_over_an_orthogonal_gru(shape):
    task = EnvSpec("probe:shape", shape, np.dtype(np.float32), Discrete(2), 10)
    config = PPOConfig(**SIZES)
    params = jax.jit(lambda key: networks.init(key, config, task))(jax.random.key(0))
    assert isinstance(params.trunk, conv_stack.ConvStack)
    assert [len(params.body), len(params.actor), len(params.critic)] == [1, 1, 1]
    for kernel in (params.gru.kernel, params.gru.recurrent):
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(8), atol=1e-5)


def test_sequences_are_not_cut_into_minibatches():
    with pytest.raises(ValueError, match="num_minibatches 4 must divide the 6 lanes, because"):
        PPOConfig(num_envs=6, num_minibatches=4, recurrent=True)
