"""The values of observations that agents give to bonuses, and when they give them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import augment
from re3_jax.agents.a2c import agent as a2c
from re3_jax.agents.a2c import learner as a2c_learner
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.ppo import agent as ppo
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.networks import policy_and_values
from re3_jax.agents.rainbow import agent as rainbow
from re3_jax.agents.rainbow import learner as rainbow_learner
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.rainbow.networks import outputs
from re3_jax.agents.rollout import Rollout
from re3_jax.agents.sac import agent as sac
from re3_jax.agents.sac import learner as sac_learner
from re3_jax.agents.sac import networks
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import Box, Discrete, EnvSpec, LaneStep
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.rewarding import rollout_with_bonus, value_if
from tests.probe_envs import aim

VECTOR = EnvSpec("gymnax:any", (5,), np.dtype(np.float32), Discrete(3), 200)
PIXELS = EnvSpec("dmc:any", (28, 28, 9), np.dtype(np.uint8), Box((2,), -1.0, 1.0), 500)
CAPACITY, LANES = 24, 3


def observations(spec, count=6):
    rng = np.random.default_rng(0)
    if spec.observation_dtype == np.uint8:
        return jnp.asarray(rng.integers(0, 256, (count, *spec.observation_shape)), jnp.uint8)
    return jnp.asarray(rng.normal(size=(count, *spec.observation_shape)), jnp.float32)


def test_a2c():
    config, seen = A2CConfig(hidden_dim=8), observations(VECTOR)
    agent = a2c.make_a2c(config, VECTOR)
    state = jax.jit(agent.init)(jax.random.key(0))
    _, expected = a2c.make_network(config, VECTOR).apply(state.params, seen)
    np.testing.assert_allclose(agent.value(state, seen), expected, rtol=1e-6)
    assert np.std(expected) > 0.01


@pytest.mark.parametrize("own_head", [False, True])
def test_ppo(own_head):
    """With a value function of the bonus's own, the task's alone is given."""
    config = PPOConfig(hidden_dim=8, intrinsic_value_head=own_head, normalize_observations=True)
    agent, seen = ppo.make_ppo(config, VECTOR), observations(VECTOR)
    state = jax.jit(agent.init)(jax.random.key(0))
    moments = state.seen._replace(mean=state.seen.mean + 1.0, variance=state.seen.variance + 4.0)
    found = agent.value(state._replace(seen=moments), seen)
    both = policy_and_values(state.params, jnp.clip((seen - 1) / 2, -10, 10))[1]
    assert both.shape == (6, 1 + own_head)
    np.testing.assert_allclose(found, both[:, 0], rtol=1e-4, atol=1e-6)


def test_sac():
    """min(Q1, Q2) of the central crop and of the mode of the policy, which evaluation takes."""
    config = SACConfig(crop_size=24, num_filters=4, hidden_dim=8, latent_dim=6)
    agent, seen = sac.make_sac(config, PIXELS), observations(PIXELS)
    state = jax.jit(agent.init)(jax.random.key(0))
    action = agent.act(state, seen, jax.random.key(1), False)
    flat = networks.features(state.critic.convs, augment.centre_crop(seen, 24))
    expected = np.min(networks.q_values(state.critic, flat, action), axis=0)
    np.testing.assert_allclose(agent.value(state, seen), expected, rtol=1e-5)


def test_rainbow():
    """max_a E[Z(o, a)] without noise."""
    config = RainbowConfig(torso="mlp", hidden_dim=8, num_atoms=5, v_min=-1.0, v_max=3.0)
    agent, seen = rainbow.make_rainbow(config, VECTOR), observations(VECTOR)
    state = jax.jit(agent.init)(jax.random.key(0))
    logits = np.asarray(outputs(state.online, seen, None, config), np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    expected = (shares * np.linspace(-1, 3, 5)).sum(axis=-1).max(axis=-1)
    np.testing.assert_allclose(agent.value(state, seen), expected, rtol=1e-5)


def paid_in_values(stored):
    """Pays the value that the agent gave when it stored the step, or that it gives now."""

    def observe(state, step):
        kept, cursor = state
        row = (cursor + jnp.arange(len(step.observation))) % CAPACITY
        kept = kept.at[row].set(step.value) if stored else kept
        return (kept, cursor + len(row)), row

    def reward(state, batch):
        return state[0][batch.bonus_index] if stored else batch.value, state, {}

    return IntrinsicReward(
        init=lambda key, spec, num_lanes=1: (jnp.zeros(CAPACITY), jnp.int32(0)),
        observe=observe,
        reward=reward,
        update=lambda state, batch, key: (state, {}),
        needs_stored_value=stored,
        needs_value=not stored,
    )


OFF_POLICY = {
    "sac": (
        sac_learner, "make_sac", aim(4).spec,
        SACConfig(hidden_dim=8, batch_size=8, num_envs=LANES, replay_capacity=CAPACITY),
    ),
    "rainbow": (
        rainbow_learner, "make_rainbow", VECTOR,
        RainbowConfig(torso="mlp", hidden_dim=8, num_atoms=3, n_steps=1, batch_size=8,
                      num_envs=LANES, replay_capacity=CAPACITY),
    ),
}  # fmt: skip


def silent(agent):
    """The agent, but an update only reports what it would learn from."""
    if isinstance(agent, sac.SAC):
        return agent._replace(phases=(lambda state, batch, key: (state, batch._asdict()),))
    return agent._replace(
        update=lambda state, batch, key: (state, jnp.ones(len(batch.reward)), batch._asdict())
    )


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", OFF_POLICY)
def test_off_policy_values_are_those_of_the_agent_when_it_is_asked(monkeypatch, name, stored):
    """When a step is stored, or when a batch is drawn by what the agent has become by then."""
    room, factory, spec, config = OFF_POLICY[name]
    agent = getattr(room, factory)(config, spec)
    monkeypatch.setattr(room, factory, lambda config, spec: silent(agent))
    learner = room.make_learner(config, spec, paid_in_values(stored))
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(9, LANES, *spec.observation_shape)).astype(np.float32)
    state = jax.jit(learner.init)(jax.random.key(0), jnp.asarray(frames[0]))
    store, never = jax.jit(learner.store), np.zeros(LANES, bool)
    kind = np.float32 if isinstance(spec.action_space, Box) else np.int32
    action = np.zeros((LANES, *getattr(spec.action_space, "shape", ())), kind)
    for frame in frames[1:]:
        reward = np.zeros(LANES, np.float32)
        state = store(state, action, LaneStep(frame, reward, never, never, frame, never))
    changed = state._replace(agent=jax.tree.map(lambda leaf: 2 * leaf, state.agent))
    _, info = jax.jit(learner.phases[0])(changed, jnp.int32(99), jax.random.key(1))
    now, then = (agent.value(of.agent, info["observation"]) for of in (changed, state))
    np.testing.assert_allclose(info["bonus"], then if stored else now, rtol=1e-4, atol=1e-6)
    assert abs(now - then).max() > 1e-3


@pytest.mark.parametrize("stored", [False, True])
def test_on_policy_a_rollout_has_its_values(monkeypatch, stored):
    time, config = CAPACITY // LANES, A2CConfig(num_envs=LANES, hidden_dim=8)
    agent = a2c.make_a2c(config, VECTOR)
    reporting = agent._replace(update=lambda state, rollout: (state, {"bonus": rollout.bonus}))
    monkeypatch.setattr(a2c_learner, "make_a2c", lambda config, spec: reporting)
    learner = a2c_learner.make_learner(config, VECTOR, paid_in_values(stored))
    rollout = rollout_of(observations(VECTOR, CAPACITY).reshape(time, LANES, -1))
    state = jax.jit(learner.init)(jax.random.key(0), rollout.last_observation)
    _, info = jax.jit(learner.learn)(state, rollout, jnp.int32(0), jax.random.key(1))
    expected = agent.value(state.agent, rollout.observation.reshape(CAPACITY, -1))
    np.testing.assert_allclose(info["bonus"].reshape(-1), expected, rtol=1e-5)
    assert np.std(expected) > 1e-3


def rollout_of(seen):
    """A rollout that shows these observations, [time, lane, ...]."""
    none, never = jnp.zeros(seen.shape[:2]), jnp.zeros(seen.shape[:2], bool)
    action = jnp.zeros(seen.shape[:2], jnp.int32)
    return Rollout(seen, action, none, none, never, never, seen, seen[-1])


def test_an_agent_without_values_is_refused():
    bonus, zeros = paid_in_values(False), jnp.zeros((2, 3, 5))
    rollout = rollout_of(zeros)
    with pytest.raises(ValueError, match="values of observations, which this agent does not give"):
        rollout_with_bonus(bonus, (), rollout, jnp.int32(0), jax.random.key(0))
    # One that does not need them gets None, and nothing is computed.
    assert value_if(False, None, zeros) is None
