"""The bonus over any encoder against latents of PyTorch and neighbours of scikit-learn."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.contrastive import contrastive
from re3_jax.intrinsic.inverse_dynamics import inverse_dynamics
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import state_entropy
from tests.torch_oracle.layers import latents as torch_latents

MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
PIXELS = EnvSpec("dmc:any", (24, 24, 9), np.dtype(np.uint8), Box((2,), -1.0, 1.0), 500)
BATCH = 16
SMALL = {
    "ring_size": 40, "latent_dim": 10, "num_filters": 4, "image_crop": 20, "encoder_init": "he",
}  # fmt: skip


def draw(spec, seed):
    """Observations, some of them equal."""
    rng = np.random.default_rng(seed)
    high = 256 if spec is PIXELS else 6
    distinct = rng.integers(0, high, (12, *spec.observation_shape)).astype(np.uint8)
    return jnp.asarray(distinct[rng.integers(0, 12, BATCH)])


def mean_of_ranks(store, queries, first, last):
    found = NearestNeighbors(algorithm="brute").fit(store).kneighbors(queries, last)[0]
    return found[:, first - 1 :].mean(axis=1)


def batch_of(spec, observation, index, seed=0):
    rng = np.random.default_rng(seed)
    if isinstance(spec.action_space, Discrete):
        action = jnp.asarray(rng.integers(0, 7, BATCH).astype(np.int32))
    else:
        action = jnp.asarray(rng.uniform(-1, 1, (BATCH, 2)).astype(np.float32))
    return IntrinsicBatch(observation, action, observation[::-1], index, jnp.int32(0))


def central(images):
    return images[:, 2:22, 2:22]


LEARNED = {
    "contrastive views": (contrastive, "ring", MINIGRID, "newest_frame", lambda x: x),
    "contrastive frames": (
        contrastive, "ring", PIXELS, "newest_frame", lambda x: central(x)[..., 6:],
    ),
    "contrastive stacks": (contrastive, "minibatch", PIXELS, "stacked_crop", central),
    "inverse dynamics of views": (
        inverse_dynamics, "minibatch", MINIGRID, "newest_frame", lambda x: x,
    ),
    "inverse dynamics of frames": (
        inverse_dynamics, "minibatch", PIXELS, "newest_frame", lambda x: x[..., 6:],
    ),
    "inverse dynamics of stacks": (inverse_dynamics, "ring", PIXELS, "stacked_crop", central),
}  # fmt: skip


OTHER_INPUTS = ("contrastive frames", "inverse dynamics of views")
"""Cases that repeat an encoder, store or kind of observation of the other four."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in OTHER_INPUTS else ()) for n in LEARNED],
)
def test_learned_encoders_in_both_regimes(name):
    """The ring keeps latents as they were stored; a minibatch is encoded with current weights."""
    factory, neighbours, spec, image_input, visible = LEARNED[name]
    bonus = factory(
        RE3Config(image_input=image_input, **SMALL),
        LearnedEncoderConfig(learning_rate=0.01, neighbours=neighbours, hidden_dim=16),
    )
    state = jax.jit(bonus.init, static_argnums=1)(jax.random.key(1), spec)

    @jax.jit
    def step(state, observation, key):
        state, index = bonus.observe(state, Step(observation))
        batch = batch_of(spec, observation, index)
        reward, state, info = bonus.reward(state, batch)
        return bonus.update(state, batch, key)[0], reward, info

    store = np.zeros((0, 10 if spec is PIXELS else 64))
    for number in range(4):
        observation = draw(spec, number)
        latents = torch_latents(state.encoder.params.encoder, visible(observation))
        store = np.concatenate([store, latents])[-40:] if neighbours == "ring" else latents
        state, reward, info = step(state, observation, jax.random.key(number))
        expected = mean_of_ranks(store, latents, 2, 3)
        np.testing.assert_allclose(reward, expected, rtol=1e-3, atol=2e-5)
        nearest = mean_of_ranks(store, latents, 2, 2)
        np.testing.assert_allclose(
            info["nearest_distance_p50"], np.median(nearest), rtol=1e-3, atol=2e-5
        )
        np.testing.assert_allclose(info["duplicate_share"], np.mean(nearest < 1e-6), atol=1e-6)
        assert 0 < info["duplicate_share"] < 1


@pytest.mark.parametrize("count_self", [True, False])
def test_a_minibatch_with_and_without_self(count_self):
    config = RE3Config(first_neighbour=2, last_neighbour=4, count_self=count_self, **SMALL)
    bonus = state_entropy(config, encoder_from(config), "minibatch")
    init = jax.jit(bonus.init, static_argnums=1)
    state, observation = init(jax.random.key(0), MINIGRID), draw(MINIGRID, 5)
    reward, _, info = jax.jit(bonus.reward)(state, batch_of(MINIGRID, observation, None))
    latents = torch_latents(state.encoder, observation)
    own = 0 if count_self else 1
    expected = mean_of_ranks(latents, latents, 2 + own, 4 + own)
    np.testing.assert_allclose(reward, expected, rtol=1e-3, atol=2e-5)
    nearest = mean_of_ranks(latents, latents, 2, 2)
    np.testing.assert_allclose(info["nearest_distance_p05"], 0.0, atol=1e-7)
    np.testing.assert_allclose(info["duplicate_share"], np.mean(nearest < 1e-6))


@pytest.mark.parametrize(
    ("image_input", "neighbours"), [("newest_frame", "ring"), ("stacked_crop", "minibatch")]
)
def test_an_ensemble_over_pixels_averages_the_distances_of_its_members(image_input, neighbours):
    """Transitions are sampled out of order and repeatedly, as by an off-policy agent."""
    config = RE3Config(
        first_neighbour=3, last_neighbour=3, count_self=False, ensemble_size=3,
        image_input=image_input, **SMALL,
    )  # fmt: skip
    bonus = state_entropy(config, encoder_from(config), neighbours)
    state = jax.jit(bonus.init, static_argnums=1)(jax.random.key(2), PIXELS)
    stored = [draw(PIXELS, seed) for seed in range(4)]
    observe = jax.jit(bonus.observe)
    for observation in stored:
        state, _ = observe(state, Step(observation))
    newest = jnp.concatenate(stored)[-40:]
    rows = (jnp.arange(24, 64)) % 40
    picked = jax.random.randint(jax.random.key(3), (BATCH,), 0, 40)
    batch = batch_of(PIXELS, newest[picked], rows[picked])
    reward, _, info = jax.jit(bonus.reward)(state, batch)
    seen = central(newest) if image_input == "stacked_crop" else newest[..., 6:]
    expected, nearest = [], []
    for member in range(3):
        params = jax.tree.map(partial(lambda m, leaf: leaf[m], member), state.encoder)
        queries = torch_latents(params, seen[picked])
        store = torch_latents(params, seen) if neighbours == "ring" else queries
        expected.append(mean_of_ranks(store, queries, 4, 4))
        nearest.append(mean_of_ranks(store, queries, 2, 2))
    np.testing.assert_allclose(reward, np.mean(expected, axis=0), rtol=1e-3, atol=2e-5)
    np.testing.assert_allclose(
        info["nearest_distance_p95"], np.quantile(np.mean(nearest, axis=0), 0.95), rtol=1e-3
    )
    assert np.std(expected, axis=0).max() > 0.01
