"""The contrastive encoder: its views, its training, and the inputs it refuses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch
from re3_jax.intrinsic.contrastive import contrastive_encoder
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.re3_config import RE3Config
from tests.equal import equal_arrays

MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
PIXELS = EnvSpec("dmc:any", (24, 24, 6), np.dtype(np.uint8), Box((2,), -1.0, 1.0), 500)
VECTOR = EnvSpec("gymnax:any", (3,), np.dtype(np.float32), Discrete(3), 200)
CONFIG = RE3Config(latent_dim=10, num_filters=4, image_crop=20, image_input="stacked_crop")


def batch_of(observation):
    return IntrinsicBatch(observation, None, None, None, None)


def draw(spec, number, seed=0):
    high = 256 if spec is PIXELS else 6
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.integers(0, high, (number, *spec.observation_shape)).astype(np.uint8))


@pytest.mark.parametrize("spec", [MINIGRID, PIXELS], ids=["views", "pixels"])
def test_it_learns_to_tell_observations_apart(spec):
    """Matches a crop or shift to its image among 24 colours, and keeps every unit active."""
    encoder = contrastive_encoder(CONFIG, LearnedEncoderConfig())
    state = jax.jit(encoder.init, static_argnums=1)(jax.random.key(0), spec)
    colours = draw(spec, 24)[:, :1, :1]
    batch = batch_of(jnp.broadcast_to(colours, (24, *spec.observation_shape)))
    start, losses, update = state, [], jax.jit(encoder.update)
    for number in range(250):
        state, info = update(state, batch, jax.random.key(number))
        losses.append(float(info["contrastive_loss"]))
    assert np.mean(losses[:3]) > 0.8 * np.log(24)
    assert np.mean(losses[-20:]) < 0.6 * np.log(24)
    silent_before, silent = (
        np.mean(np.std(encoder.encode(s, batch.observation), axis=0) < 1e-3) for s in (start, state)
    )
    assert silent <= silent_before + 0.1


def test_latents_are_of_the_central_crop():
    encoder = contrastive_encoder(CONFIG, LearnedEncoderConfig())
    state, images = encoder.init(jax.random.key(0), PIXELS), draw(PIXELS, 3)
    encode = jax.jit(encoder.encode)
    border = images.at[:, :2].set(0).at[:, :, -2:].set(0)
    np.testing.assert_array_equal(encode(state, images), encode(state, border))
    inner = images.at[:, 2].set(0)
    assert (encode(state, images) != encode(state, inner)).any(axis=1).all()


def test_the_slow_encoder_is_a_copy_that_follows():
    encoder = contrastive_encoder(CONFIG, LearnedEncoderConfig(momentum=1.0))
    state = encoder.init(jax.random.key(0), MINIGRID)
    jax.tree.map(equal_arrays, state.key_encoder, state.params.encoder)
    begun = state.params.encoder
    state, _ = jax.jit(encoder.update)(state, batch_of(draw(MINIGRID, 8)), jax.random.key(1))
    moved = jax.tree.map(lambda ours, before: (ours != before).any(), state.params.encoder, begun)
    assert all(jax.tree.leaves(moved))
    jax.tree.map(equal_arrays, state.key_encoder, state.params.encoder)


def test_flat_observations_are_refused():
    encoder = contrastive_encoder(CONFIG, LearnedEncoderConfig())
    with pytest.raises(ValueError, match="needs images that it can crop or shift, which gymnax"):
        encoder.init(jax.random.key(0), VECTOR)


@pytest.mark.parametrize("image_input", ["newest_frame", "stacked_crop"])
def test_a_crop_of_the_whole_image_is_refused(image_input):
    config = RE3Config(image_crop=24, num_filters=4, image_input=image_input)
    encoder = contrastive_encoder(config, LearnedEncoderConfig())
    with pytest.raises(ValueError, match="24x24 pixels leave no room for random crops of 24x24"):
        encoder.init(jax.random.key(0), PIXELS)
    shifted = contrastive_encoder(config, LearnedEncoderConfig(augmentation="shift"))
    shifted.init(jax.random.key(0), PIXELS)


@pytest.mark.parametrize(("colours", "stack"), [(3, 2), (1, 4)], ids=["two colour", "four grey"])
def test_it_learns_from_the_newest_frame_of_a_stack(colours, stack):
    shape, pixels = (48, 48, colours * stack), np.dtype(np.uint8)
    spec = EnvSpec(
        "any:pixels", shape, pixels, Discrete(3), 500, colours=colours, frame_stack=stack
    )
    config = dataclasses.replace(CONFIG, image_input="newest_frame", image_crop=40)
    encoder = contrastive_encoder(config, LearnedEncoderConfig(augmentation="crop"))
    state = jax.jit(encoder.init, static_argnums=1)(jax.random.key(0), spec)
    images = jax.random.randint(jax.random.key(1), (6, *shape), 0, 256).astype(jnp.uint8)
    update, encode = jax.jit(encoder.update), jax.jit(encoder.encode)
    older = images.at[..., :-colours].set(0)
    without, _ = update(state, batch_of(older), jax.random.key(2))
    state, _ = update(state, batch_of(images), jax.random.key(2))
    jax.tree.map(equal_arrays, state.params, without.params)
    np.testing.assert_array_equal(encode(state, images), encode(state, older))
    newest = images.at[..., -colours:].set(0)
    assert (encode(state, images) != encode(state, newest)).any(axis=1).all()
