"""`examples/plugin_off_policy_agent.py`: its updates against PyTorch, and its program."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax.envs.base import LaneStep
from re3_jax.intrinsic import RE3Config, from_config
from re3_jax.intrinsic.base import none
from re3_jax.replay import transition_ring
from re3_jax.runs import agents
from re3_jax.training.off_policy import make_off_policy_program
from tests.probe_envs import aim
from tests.torch_oracle.layers import mlp
from tests.torch_oracle.weights import adam, as_tensors, data, detached, step, values

LANES, CAPACITY = 2, 64
SPEC = aim().spec


@pytest.fixture(scope="module")
def td3():
    """The example, without the agent that it registers for the whole process."""
    from examples import plugin_off_policy_agent

    del agents.AGENTS["td3"]
    return plugin_off_policy_agent


@pytest.fixture(scope="module")
def config(td3):
    sizes = {"hidden_dim": 8, "batch_size": 16, "replay_capacity": CAPACITY}
    return td3.TD3Config(num_envs=LANES, initial_agent_steps=10, **sizes)


class TorchTD3:
    """One learner; its weights are trees of tensors with the names of ours."""

    def __init__(self, config, state):
        self.config = config
        self.actor, self.critics = as_tensors(state.actor), as_tensors(state.critics)
        self.targets = detached(as_tensors(state.targets))
        self.optimizers = [adam(tree, config.learning_rate) for tree in (self.actor, self.critics)]

    @staticmethod
    def q_values(critics, observation, action):
        x = torch.cat([observation, action], dim=1)
        return [mlp(critic, x)[:, 0] for critic in critics]

    def update(self, batch, noise, moves_actor):
        config, (of_actor, of_critics) = self.config, self.optimizers
        actor, critics = self.targets
        noise = (config.target_noise * noise).clamp(-config.noise_clip, config.noise_clip)
        action = (torch.tanh(mlp(actor, batch.next_observation)) + noise).clamp(-1, 1)
        following = torch.minimum(*self.q_values(critics, batch.next_observation, action))
        target = batch.reward + batch.bonus + config.discount * batch.discount * following
        q = self.q_values(self.critics, batch.observation, batch.action)
        loss = sum(torch.nn.functional.mse_loss(one, target) for one in q)
        step(of_critics, loss)
        if moves_actor:
            action = torch.tanh(mlp(self.actor, batch.observation))
            step(of_actor, -self.q_values(self.critics, batch.observation, action)[0].mean())
            self.targets = jax.tree.map(
                lambda old, new: (1 - config.tau) * old + config.tau * new.detach(),
                self.targets,
                (self.actor, self.critics),
            )
        return loss.item()


def test_its_updates_are_those_of_td3_in_pytorch(td3, config):
    """Also of what the bonus pays, and of noise that is clipped."""
    config = dataclasses.replace(config, target_noise=0.5, learning_rate=0.01, tau=0.1)
    bonus = none()._replace(reward=lambda state, batch: (batch.observation[:, 0], state, {}))
    learner = td3.make_learner(config, SPEC, bonus)
    rng = np.random.default_rng(0)

    def frames():
        return jnp.asarray(rng.normal(size=(LANES, 2)), jnp.float32)

    state = jax.jit(learner.init)(jax.random.key(0), frames())
    store = jax.jit(learner.store)
    for _ in range(CAPACITY // LANES):
        reward, action = rng.normal(size=LANES), rng.uniform(-1, 1, (LANES, 1))
        ended, no = jnp.asarray(rng.random(LANES) < 0.3), jnp.zeros(LANES, bool)
        lanes = LaneStep(frames(), jnp.float32(reward), ended, no, frames(), ended)
        state = store(state, jnp.float32(action), lanes)
    theirs, phases = TorchTD3(config, state.agent), [jax.jit(phase) for phase in learner.phases]
    for number in range(4):
        key = jax.random.key(number)
        sample_key, _, noise_key = jax.random.split(key, 3)
        batch, _ = transition_ring.sample(sample_key, state.replay, config.batch_size)
        batch = batch._replace(bonus=batch.observation[:, 0])
        noise = jax.random.normal(noise_key, batch.action.shape)
        batch, noise = jax.tree.map(lambda leaf: leaf.double(), data((batch, noise)))
        assert 0 < batch.discount.sum() < config.batch_size
        state, info = phases[number % 2](state, jnp.int32(CAPACITY), key)
        loss = theirs.update(batch, noise, moves_actor=number % 2 == 1)
        np.testing.assert_allclose(info["td_loss"], loss, rtol=1e-4)
    jax.tree.map(
        lambda ours, other: np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-5),
        (state.agent.actor, state.agent.critics, state.agent.targets),
        values((theirs.actor, theirs.critics, theirs.targets)),
    )


@pytest.mark.parametrize("with_re3", [False, True])
def test_its_program_runs_with_and_without_a_bonus(td3, config, with_re3):
    bonus = from_config(RE3Config(ring_size=CAPACITY, beta=0.05)) if with_re3 else none()
    learner = td3.make_learner(config, SPEC, bonus)
    program = make_off_policy_program(
        aim(), learner, chunk_steps=50, eval_episodes=5, eval_greedy=True
    )
    state = program.init(jnp.array([1, 2]))
    for _ in range(3):
        state, metrics = program.train(state)
    assert all(np.isfinite(metric).all() for metric in metrics.values()), metrics
    # One for each step of each lane, from the tenth on.
    np.testing.assert_array_equal(state.counters.updates, [2 * (150 - 4)] * 2)
    assert (metrics["intrinsic_reward_mean"] > 0).all() == with_re3
    assert np.isfinite(program.evaluate(state).return_mean).all()


def test_images_are_refused_in_one_sentence(td3, config):
    spec = dataclasses.replace(SPEC, observation_shape=(8, 8, 3))
    with pytest.raises(ValueError, match="td3 learns from vectors only, which probe:aim does not"):
        td3.make_learner(config, spec, none())
