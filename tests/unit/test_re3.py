"""RE3's protocol: rings, seeds, errors."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import random_encoder
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3 import RE3Config, from_config, re3
from tests.equal import equal_arrays

MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
VECTOR = EnvSpec("gymnax:any", (2,), np.dtype(np.float32), Discrete(3), 200)
SMALL = RE3Config(ring_size=40, beta=1.0, normalize="running_std", latent_dim=8)


def observe_and_reward(bonus, state, observation):
    state, index = bonus.observe(state, Step(observation))
    batch = IntrinsicBatch(observation, None, observation, index, jnp.int32(0))
    return bonus.reward(state, batch)[:2]


BONUS = re3(RE3Config(ring_size=48, latent_dim=8))
step = jax.jit(partial(observe_and_reward, BONUS))


def points(number, seed=0):
    return jax.random.normal(jax.random.key(seed), (number, 2))


def test_vmapped_seeds_equal_single_runs():
    bonus = from_config(SMALL)
    keys = jax.random.split(jax.random.key(0), 3)
    observations = points(3 * 4 * 16).reshape(3, 4, 16, 2)

    def run(key, observations):
        def step(state, observation):
            return observe_and_reward(bonus, state, observation)[::-1]

        return jax.lax.scan(step, bonus.init(key, VECTOR), observations)

    states, rewards = jax.jit(jax.vmap(run))(keys, observations)
    single = jax.jit(run)
    for seed in range(3):
        state, reward = single(keys[seed], observations[seed])
        np.testing.assert_allclose(rewards[seed], reward, rtol=1e-5, atol=1e-6)
        for leaf, alone in zip(jax.tree.leaves(states), jax.tree.leaves(state), strict=True):
            np.testing.assert_allclose(leaf[seed], alone, rtol=1e-5, atol=1e-6)
    assert abs(rewards[0] - rewards[1]).max() > 0.01


def test_earlier_rollouts_and_all_lanes_are_neighbours():
    """Unlike in some ports, not only the batch: a state seen before earns less than a new one."""
    state = BONUS.init(jax.random.key(0), VECTOR)
    for _ in range(2):
        _, state = step(state, points(16, seed=1))
    again, _ = step(state, points(16, seed=1))
    fresh, _ = step(state, points(16, seed=2))
    np.testing.assert_array_equal(again, np.zeros(16))
    assert fresh.min() > 0.0


def test_old_latents_leave_the_ring():
    state = BONUS.init(jax.random.key(0), VECTOR)
    for seed in (1, 1, 2, 3, 4):
        _, state = step(state, points(16, seed=seed))
    back, _ = step(state, points(16, seed=1))
    assert back.min() > 0.0


def test_the_stored_latent_is_looked_up_and_observations_are_not_encoded_again():
    state, index = BONUS.observe(BONUS.init(jax.random.key(0), VECTOR), Step(points(16)))
    np.testing.assert_array_equal(
        state.ring.latents[index], random_encoder.encode(state.encoder, points(16))
    )
    reward = jax.jit(BONUS.reward)
    ours, other = (
        reward(state, IntrinsicBatch(observation, None, None, index, jnp.int32(0)))[0]
        for observation in (points(16), points(16, seed=5))
    )
    assert ours.min() > 0.0
    np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize("count_self", [True, False])
def test_a_single_observation_earns_nothing(count_self):
    """It has no neighbour."""
    bonus = from_config(RE3Config(ring_size=10, latent_dim=8, count_self=count_self))
    state = bonus.init(jax.random.key(0), VECTOR)
    reward, _ = jax.jit(partial(observe_and_reward, bonus))(state, points(1))
    assert reward == 0.0


def test_ensemble_keeps_one_ring_a_member():
    bonus = re3(RE3Config(ring_size=20, ensemble_size=3))
    state = bonus.init(jax.random.key(0), MINIGRID)
    state, index = jax.jit(bonus.observe)(state, Step(jnp.ones((5, 7, 7, 3), jnp.uint8)))
    assert state.ring.latents.shape == (3, 20, 64)
    np.testing.assert_array_equal(index, np.arange(5))
    np.testing.assert_array_equal(state.ring.num_valid, [5, 5, 5])


@pytest.mark.parametrize("image_input", ["newest_frame", "stacked_crop"])
def test_pixels_are_encoded_once_and_rewarded(image_input):
    spec = EnvSpec("dmc:any", (20, 20, 9), np.dtype(np.uint8), Box((2,), -1.0, 1.0), 500)
    bonus = re3(
        RE3Config(
            ring_size=12, latent_dim=50, image_input=image_input, image_crop=16, num_filters=16
        )
    )
    state = bonus.init(jax.random.key(0), spec)
    images = jax.random.randint(jax.random.key(1), (6, 20, 20, 9), 0, 256).astype(jnp.uint8)
    images = images.at[5].set(images[0]).at[4].set(images[0])
    reward, state = jax.jit(partial(observe_and_reward, bonus))(state, images)
    assert state.ring.latents.shape == (12, 50)
    np.testing.assert_array_equal(reward > 0, [False, True, True, True, False, False])


def test_update_trains_nothing():
    bonus = from_config(SMALL)
    state = bonus.init(jax.random.key(0), VECTOR)
    after, info = bonus.update(state, None, jax.random.key(1))
    assert after is not None and info == {}
    jax.tree.map(equal_arrays, after, state)


def test_a_rollout_longer_than_the_ring_is_refused():
    bonus = re3(RE3Config(ring_size=8, latent_dim=8))
    with pytest.raises(ValueError, match="does not fit a ring of 8 rows"):
        bonus.observe(bonus.init(jax.random.key(0), VECTOR), Step(points(9)))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"first_neighbour": 0}, "first_neighbour must be at least 1"),
        ({"first_neighbour": 4}, r"last_neighbour \(3\) must not be below first_neighbour \(4\)"),
        ({"first_neighbour": 1, "last_neighbour": 1}, "the observation itself, at distance 0"),
        ({"last_neighbour": 3.5}, "last_neighbour must be a whole number, but it is 3.5"),
        ({"ring_size": 0}, "ring_size must be at least 1"),
        ({"ring_size": 1e4}, "ring_size must be a whole number, but it is 10000.0"),
        ({"ring_size": 2}, "a ring of 2 latents has no neighbour of rank 3"),
        ({"ring_size": 3, "count_self": False}, "a ring of 3 latents has no neighbour of rank 3"),
        ({"latent_dim": 0}, "latent_dim must be at least 1"),
        ({"ensemble_size": 0}, "ensemble_size must be at least 1"),
        ({"beta": float("nan")}, "beta must be a finite number"),
        ({"rho": 1.5}, "rho must be at least 0 and below 1"),
        ({"normalize": "std"}, "unknown normalize 'std': choose one of none, running_std"),
        ({"image_crop": 0}, "image_crop must be at least 1"),
        ({"num_filters": 0}, "num_filters must be at least 1"),
        ({"image_input": "stack"}, "unknown image_input 'stack': choose one of newest_frame"),
        ({"encoder_init": "zeros"}, "unknown encoder_init 'zeros': choose one of torch"),
    ],
)
def test_bad_settings_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        RE3Config(**values)
