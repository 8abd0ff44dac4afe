"""Training a bonus on a rollout: at once, or in the minibatches of the agent."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.learner import make_learner
from re3_jax.agents.ppo.minibatches import shuffled, steps_of
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import RE3Config, encoder_config, from_config
from re3_jax.intrinsic.base import IntrinsicBatch, Step, none
from re3_jax.intrinsic.icm import ICMConfig
from re3_jax.intrinsic.icm import from_config as icm
from re3_jax.intrinsic.inverse_dynamics import inverse_dynamics
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.ngu import NGUConfig
from re3_jax.intrinsic.ngu import from_config as ngu
from re3_jax.intrinsic.noveld import NovelDConfig
from re3_jax.intrinsic.noveld import from_config as noveld
from re3_jax.intrinsic.rewarding import reward_batch
from re3_jax.intrinsic.rnd import RNDConfig
from re3_jax.intrinsic.rnd import from_config as rnd
from re3_jax.intrinsic.state_entropy import scaled
from re3_jax.intrinsic.sums import sum_of
from re3_jax.training.on_policy import init_state, train_update
from tests.equal import equal_arrays
from tests.probe_envs import aim

SPEC = EnvSpec("plane", (2,), np.dtype(np.float32), Discrete(3), max_agent_steps=100)
SIZES = {"hidden_dim": 16, "latent_dim": 8}
RE3 = from_config(RE3Config(ring_size=32))
BONUSES = {
    "rnd": rnd(RNDConfig(**SIZES)),
    "rnd of o_{t+1}": rnd(RNDConfig(**SIZES, rewarded="next", normalize_observations=True)),
    "noveld": noveld(NovelDConfig(**SIZES), 4),
    "ngu": ngu(NGUConfig(**SIZES, neighbours=1), 4),
    "inverse_dynamics": scaled(
        RE3Config(ring_size=32, latent_dim=8),
        inverse_dynamics(
            RE3Config(ring_size=32, latent_dim=8), LearnedEncoderConfig(hidden_dim=16)
        ),
    ),
    "re3+icm": sum_of({"re3": RE3, "icm": icm(ICMConfig(**SIZES))}),
    "icm+rnd": sum_of({"icm": icm(ICMConfig(**SIZES)), "rnd": rnd(RNDConfig(**SIZES))}),
}
STEPS = jnp.array([[0, 3], [1, 2], [2, 0], [3, 1]])


def begun(bonus):
    """A state that has observed four steps, and their batch."""
    place = jax.random.normal(jax.random.key(1), (4, 2))
    following, action = place + 0.1, jnp.array([0, 1, 2, 0])
    state = bonus.init(jax.random.key(0), SPEC, 4)
    goes_on = jnp.zeros(4, bool)
    state, index = bonus.observe(state, Step(place, action, following, goes_on, goes_on))
    return state, IntrinsicBatch(place, action, following, index, jnp.int32(7))


@pytest.mark.parametrize("name", BONUSES)
def test_minibatches_are_updates_one_after_another(name):
    bonus = BONUSES[name]
    state, batch = begun(bonus)
    key = jax.random.key(2)
    paid, after, info = jax.jit(partial(reward_batch, bonus))(state, batch, key, STEPS)

    expected_paid, expected, _ = jax.jit(bonus.reward)(state, batch)
    update, losses = jax.jit(bonus.update), []
    for rows, one in zip(STEPS, jax.random.split(key, len(STEPS)), strict=True):
        parts = IntrinsicBatch(*(leaf[rows] for leaf in batch[:4]), batch.agent_steps)
        expected, found = update(expected, parts, one)
        losses.append(found)
    # All are rewarded by what was known before.
    np.testing.assert_allclose(paid, expected_paid, rtol=1e-5)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), after, expected)
    for loss in losses[0]:
        mean = np.mean([found[loss] for found in losses])
        np.testing.assert_allclose(info[loss], mean, rtol=1e-4)
    moved = jax.tree.map(lambda new, old: not np.allclose(new, old, atol=1e-4), after, state)
    assert any(jax.tree.leaves(moved))


def test_updates_are_given_what_a_fixed_network_says_of_their_rows():
    """So that it is computed once, not in each epoch."""
    bonus = BONUSES["icm+rnd"]
    state, batch = begun(bonus)
    given = []

    def update(state, batch, key):
        of_icm, of_rnd = batch.targets
        assert of_icm is None
        jax.debug.callback(given.append, of_rnd, ordered=True)
        return bonus.update(state, batch, key)

    spy = bonus._replace(update=update)
    jax.jit(partial(reward_batch, spy))(state, batch, jax.random.key(2), STEPS)
    jax.effects_barrier()
    fixed = state.parts["rnd"].bonus.target
    expected = encoder_config.encode(fixed, batch.observation, RNDConfig(**SIZES))
    np.testing.assert_allclose(np.array(given), expected[STEPS], rtol=1e-5, atol=1e-6)


def test_each_minibatch_is_learned_with_a_key_of_its_own():
    drawn = []

    def update(state, batch, key):
        jax.debug.callback(lambda key: drawn.append(key.tobytes()), jax.random.key_data(key))
        return state + 1, {}

    _, batch = begun(RE3)
    learned = jax.jit(partial(reward_batch, none()._replace(update=update)))
    _, updates, _ = learned(jnp.int32(0), batch, jax.random.key(2), STEPS)
    jax.effects_barrier()
    assert len(set(drawn)) == updates == len(STEPS)


def test_what_never_learns_is_left_alone():
    state, batch = begun(RE3)
    key = jax.random.key(2)
    at_once, in_parts = (reward_batch(RE3, state, batch, key, rows) for rows in (None, STEPS))
    jax.tree.map(equal_arrays, at_once, in_parts)
    assert in_parts[1].bonus.ring.latents is state.bonus.ring.latents


@pytest.mark.parametrize("recurrent", [False, True])
def test_ppo_trains_the_bonus_on_every_step_in_every_epoch(recurrent):
    config = PPOConfig(
        num_envs=4, rollout_length=6, num_epochs=3, num_minibatches=2, recurrent=recurrent
    )
    steps = steps_of(shuffled(jax.random.key(0), config), config)
    every = np.sort(np.asarray(steps).reshape(3, -1))
    np.testing.assert_array_equal(every, np.tile(np.arange(24), (3, 1)))
    if recurrent:
        # Whole lanes: steps of lane j are those with remainder j.
        assert all(len(set(row % 4)) == 2 for row in np.asarray(steps))

    env = aim()
    learner = make_learner(config, env.spec, BONUSES["rnd"])
    state = init_state(env, learner, jax.random.key(0))
    state, _ = jax.jit(partial(train_update, env, learner))(state)
    assert optax.tree.get(state.intrinsic, "count") == 3 * 2
