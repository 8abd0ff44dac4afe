"""Properties of SAC for any weights: acting, phases, seeds, and which parameters change."""

import dataclasses
import operator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.off_policy import transition_storage
from re3_jax.agents.sac import networks, replays
from re3_jax.agents.sac.agent import draw, make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import Box, EnvSpec, LaneStep
from re3_jax.replay.transitions import Later, Transitions
from tests.equal import equal_arrays

BATCH = 4
CONFIG = SACConfig(num_filters=2, latent_dim=5, hidden_dim=8, crop_size=16, batch_size=BATCH)
IMAGES = EnvSpec("probe:images", (20, 20, 6), np.dtype(np.uint8), Box((2,), -1, 1), 100)
VECTORS = EnvSpec("probe:vectors", (3,), np.dtype(np.float32), Box((2,), -1, 1), 100)


def make_batch(seed, spec=IMAGES):
    rng = np.random.default_rng(seed)

    def observations():
        shape = (BATCH, *spec.observation_shape)
        if spec.observation_dtype == np.uint8:
            return jnp.asarray(rng.integers(0, 256, shape, dtype=np.uint8))
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    reward, bonus = jnp.asarray(rng.random((2, BATCH)), jnp.float32)
    action = jnp.asarray(rng.uniform(-1, 1, (BATCH, 2)), jnp.float32)
    return Transitions(observations(), action, reward, bonus, jnp.ones(BATCH), observations())


@pytest.fixture(scope="module")
def agent():
    return make_sac(CONFIG, IMAGES)


@pytest.fixture(scope="module")
def state(agent):
    return jax.jit(agent.init)(jax.random.key(0))


@pytest.fixture(scope="module")
def phases(agent):
    return [jax.jit(phase) for phase in agent.phases]


@partial(jax.jit, static_argnums=(0, 4))
def act(agent, state, observation, key, explore):
    return agent.act(state, observation, key, explore)


@jax.jit
def policy(state, observation):
    """Mean and log standard deviation for the centre crop of an observation."""
    flat = networks.features(state.critic.convs, observation[:, 2:18, 2:18])
    return networks.policy(state.actor, flat, CONFIG)


def assert_equal(ours, theirs):
    jax.tree.map(equal_arrays, ours, theirs)


def test_acting_without_exploring_is_the_tanh_of_the_mean_of_the_centre(agent, state):
    observation = make_batch(0).observation
    mean, _ = policy(state, observation)
    for key in (0, 1):
        action = act(agent, state, observation, jax.random.key(key), False)
        np.testing.assert_allclose(action, jnp.tanh(mean), rtol=1e-5, atol=1e-6)


def test_several_steps_bootstrap_from_the_last_with_the_bonus_of_all(phases, state):
    batch, last, key = make_batch(1), make_batch(2).next_observation, jax.random.key(3)
    weight = jnp.linspace(1, 2, BATCH)
    several = batch._replace(later=Later(last, weight))
    one = batch._replace(next_observation=last, bonus=weight * batch.bonus)
    assert_equal(phases[0](state, several, key), phases[0](state, one, key))


def test_its_replay_sums_the_rewards_of_its_steps_and_shows_the_bonus_single_ones():
    config = dataclasses.replace(CONFIG, n_steps=3, discount=0.5, batch_size=64)
    spec = dataclasses.replace(IMAGES, frame_stack=2)
    store = replays.of_frames(config, spec, 2, ())
    frames = [jnp.full((1, *spec.frame_shape), number, jnp.uint8) for number in range(5)]
    ring = store.init(frames[0])
    for number, frame in enumerate(frames[1:]):
        no, index = jnp.zeros(1, bool), jnp.full(1, number)
        step = LaneStep(frame, jnp.ones(1), no, no, frame, no)
        ring = store.add(ring, None, jnp.zeros((1, 2)), step, index)
    batch, index = store.sample(jax.random.key(0), ring)
    steps = np.minimum(3, 4 - np.asarray(index))
    assert set(steps) == {1, 2, 3}
    np.testing.assert_allclose(batch.reward, 2 - 0.5 ** (steps - 1.0))
    np.testing.assert_allclose(batch.later.weight, batch.reward)
    np.testing.assert_allclose(batch.discount, 0.5 ** (steps - 1.0))
    np.testing.assert_array_equal(batch.next_observation[:, 0, 0, -1], index + 1)
    np.testing.assert_array_equal(batch.last_observation[:, 0, 0, -1], index + steps)


@pytest.mark.parametrize("seen", [IMAGES, VECTORS])
def test_its_replay_bootstraps_from_all_but_the_end_of_the_task(seen):
    """A lost life ends it for the agent, a time limit does not."""
    config = dataclasses.replace(CONFIG, num_envs=4, batch_size=64)
    spec = dataclasses.replace(seen, frame_stack=2 if seen.is_image else 1)
    store = (
        replays.of_frames(config, spec, 2, ())
        if seen.is_image
        else transition_storage(config.replay_capacity, config.batch_size, spec, ())
    )
    frame = jnp.zeros((4, *spec.frame_shape), spec.observation_dtype)
    terminated, truncated, lost_life = jnp.eye(4, 3, dtype=bool).T
    step = LaneStep(frame, jnp.ones(4), terminated, truncated, frame, terminated | lost_life)
    ring = store.add(store.init(frame), frame, jnp.zeros((4, 2)), step, jnp.arange(4))
    batch, lane = store.sample(jax.random.key(0), ring)
    assert set(np.asarray(lane)) == {0, 1, 2, 3}
    np.testing.assert_array_equal(batch.discount, np.array([0.0, 1.0, 0.0, 1.0])[lane])


def test_exploring_samples_the_policy_within_bounds(agent, state):
    observation = jnp.repeat(make_batch(0).observation[:1], 4000, axis=0)
    mean, log_std = policy(state, observation[:1])
    action = np.asarray(act(agent, state, observation, jax.random.key(0), True), np.float64)
    assert np.all(np.abs(action) <= 1)
    before_tanh = np.arctanh(action)
    # Five standard errors of the mean and of the standard deviation.
    std = np.exp(log_std[0])
    np.testing.assert_allclose(before_tanh.mean(0), mean[0], atol=5 * std.max() / 4000**0.5)
    np.testing.assert_allclose(before_tanh.std(0), std, rtol=5 / 8000**0.5)


def test_huge_weights_still_act_within_bounds(agent, state):
    large = state._replace(actor=jax.tree.map(lambda x: 1e3 * x, state.actor))
    for explore in (True, False):
        action = act(agent, large, make_batch(0).observation, jax.random.key(0), explore)
        assert np.all(np.abs(action) <= 1)


def test_the_cycle_has_a_phase_for_every_combination():
    config = dataclasses.replace(CONFIG, actor_every=2, target_every=3)
    phases = make_sac(config, VECTORS).phases
    # Of updates 0 to 5 the actor learns in 0, 2, 4 and the target moves in 0, 3.
    assert [phases.index(phase) for phase in phases] == [0, 1, 2, 3, 2, 1]
    always = dataclasses.replace(CONFIG, actor_every=1, target_every=1)
    assert len(make_sac(always, VECTORS).phases) == 1


def test_a_critic_update_changes_nothing_else(state, phases):
    after, info = phases[1](state, make_batch(0), jax.random.key(0))
    assert_equal(
        after._replace(critic=0, critic_opt_state=0),
        state._replace(critic=0, critic_opt_state=0),
    )
    moved = jax.tree.map(lambda a, b: np.any(a != b), after.critic, state.critic)
    assert all(jax.tree.leaves(moved))
    full, full_info = phases[0](state, make_batch(0), jax.random.key(0))
    assert info.keys() == full_info.keys()
    assert info["actor_loss"] == state.actor_info.loss != full_info["actor_loss"]


def test_reward_and_bonus_count_alike(state, phases):
    batch = make_batch(0)
    swapped = batch._replace(reward=batch.bonus, bonus=batch.reward)
    assert_equal(
        phases[1](state, batch, jax.random.key(0)), phases[1](state, swapped, jax.random.key(0))
    )
    _, info = phases[1](state, batch, jax.random.key(0))
    _, without = phases[1](state, batch._replace(bonus=0 * batch.bonus), jax.random.key(0))
    np.testing.assert_allclose(
        info["target_mean"] - without["target_mean"], batch.bonus.mean(), rtol=1e-4
    )


def test_where_the_task_ended_the_target_is_the_reward(state, phases):
    batch = make_batch(0)._replace(discount=jnp.zeros(BATCH))
    _, info = phases[1](state, batch, jax.random.key(0))
    np.testing.assert_allclose(info["target_mean"], jnp.mean(batch.reward + batch.bonus), rtol=1e-6)


def test_seeds_in_one_program_are_seeds_one_by_one(agent, phases):
    keys = jax.random.split(jax.random.key(5), 2)
    states = jax.jit(jax.vmap(agent.init))(keys)
    batches = [make_batch(seed) for seed in range(2)]
    together, info = jax.jit(jax.vmap(agent.phases[0]))(
        states, jax.tree.map(lambda *x: jnp.stack(x), *batches), keys
    )
    for seed in range(2):
        state, ours = jax.tree.map(operator.itemgetter(seed), (states, (together, info)))
        # One step of Adam is 2e-4, whatever the size of the gradient.
        jax.tree.map(
            partial(np.testing.assert_allclose, rtol=1e-4, atol=2e-5),
            ours,
            phases[0](state, batches[seed], keys[seed]),
        )


def test_a_donated_state_may_be_overwritten():
    agent = make_sac(CONFIG, VECTORS)
    state = jax.jit(agent.init)(jax.random.key(0))
    phase = jax.jit(agent.phases[0], donate_argnums=0)
    after, _ = phase(state, make_batch(0, VECTORS), jax.random.key(0))
    # The actor's metrics are overwritten without being read.
    read = jax.tree.leaves(state._replace(actor_info=()))
    assert all(leaf.is_deleted() for leaf in read)
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(after))


def test_observation_and_next_observation_are_cropped_apart():
    images = make_batch(0).observation[:1]
    same = make_batch(0)._replace(
        observation=jnp.repeat(images, BATCH, axis=0),
        next_observation=jnp.repeat(images, BATCH, axis=0),
    )
    draws = draw(jax.random.key(0), same, CONFIG)
    assert draws.observation.shape == (BATCH, 16, 16, 6)
    differ = np.any(draws.observation != draws.next_observation, axis=(1, 2, 3))
    assert np.sum(differ) >= BATCH - 1
    assert np.any(draws.observation[0] != draws.observation[1])


def test_each_of_several_copies_is_augmented_apart():
    config = SACConfig(augmentation="shift", num_augmentations=2)
    batch = make_batch(0)
    draws = draw(jax.random.key(0), batch, config)
    assert draws.observation.shape == draws.next_observation.shape == (2 * BATCH, 20, 20, 6)
    assert draws.next_noise.shape == (2 * BATCH, 2) and draws.noise.shape == (BATCH, 2)
    first, second = draws.observation[:BATCH], draws.observation[BATCH:]
    assert np.sum(np.any(first != second, axis=(1, 2, 3))) >= BATCH - 1


def test_every_draw_has_noise_and_offsets_of_its_own():
    config = SACConfig(augmentation="shift", num_augmentations=2)
    draws = draw(jax.random.key(0), make_batch(0), config)
    for seen in (draws.observation, draws.next_observation):
        first, second = seen[:BATCH], seen[BATCH:]
        assert np.sum(np.any(first != second, axis=(1, 2, 3))) >= BATCH - 1
    noise = np.concatenate([draws.next_noise, draws.noise])
    assert len(np.unique(noise)) == noise.size
