"""The random encoder: shapes, duplicates, ensembles, seeds, errors."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from re3_jax import random_encoder
from re3_jax.envs.base import Discrete, EnvSpec


def spec(shape, dtype):
    return EnvSpec("any:any", shape, np.dtype(dtype), Discrete(7), 360)


MINIGRID = spec((7, 7, 3), np.uint8)
PIXELS = spec((20, 20, 9), np.uint8)
encode = jax.jit(random_encoder.encode)


def views(number, seed=0):
    return jax.random.randint(jax.random.key(seed), (number, 7, 7, 3), 0, 6).astype(jnp.uint8)


def test_a_views_latent_is_64_non_negative_float32():
    latents = encode(random_encoder.init(jax.random.key(0), MINIGRID), views(128))
    assert latents.shape == (128, 64)
    assert latents.dtype == jnp.float32
    assert latents.min() >= 0.0
    assert random_encoder.latent_dim_of(MINIGRID, 17) == 64


def test_equal_views_have_bit_equal_latents():
    """Otherwise rounding would reward a repeated state."""
    params = random_encoder.init(jax.random.key(0), MINIGRID)
    distinct = views(5)
    repeated = jnp.tile(distinct, (26, 1, 1, 1))[:128]
    latents = np.asarray(encode(params, repeated))
    for place in range(128):
        np.testing.assert_array_equal(latents[place], latents[place % 5])


def test_observations_of_several_axes_are_flattened():
    params = random_encoder.init(jax.random.key(0), spec((8, 8), np.float32), latent_dim=10)
    observation = jnp.ones((3, 8, 8))
    assert encode(params, observation).shape == (3, 10)
    np.testing.assert_array_equal(
        encode(params, observation), encode(params, observation.reshape(3, 64))
    )


def test_members_of_an_ensemble_differ():
    params = random_encoder.init(jax.random.key(0), MINIGRID, ensemble_size=2)
    assert all((one != other).all() for one, other in jax.tree.leaves(params))


def test_seeds_can_be_vmapped():
    init = partial(random_encoder.init, spec=MINIGRID, ensemble_size=2)
    keys = jax.random.split(jax.random.key(1), 2)
    params = jax.jit(jax.vmap(init))(keys)
    observation = views(6).reshape(2, 3, 7, 7, 3)
    together = jax.jit(jax.vmap(random_encoder.encode))(params, observation)
    alone = jax.jit(init)
    for seed in range(2):
        expected = encode(alone(keys[seed]), observation[seed])
        np.testing.assert_allclose(together[seed], expected, rtol=1e-5, atol=1e-6)


def test_equal_images_have_bit_equal_latents():
    """At any place in a batch, and at the same place in another batch."""
    params = random_encoder.init(jax.random.key(0), PIXELS, latent_dim=50, num_filters=8)
    images = jax.random.randint(jax.random.key(1), (5, 20, 20, 9), 0, 256).astype(jnp.uint8)
    latents = np.asarray(encode(params, jnp.tile(images, (4, 1, 1, 1))[:17]))
    assert latents.shape == (17, 50)
    for place in range(17):
        np.testing.assert_array_equal(latents[place], latents[place % 5])
    alone = encode(params, images[:1])
    np.testing.assert_array_equal(encode(params, images[:1]), alone)
    np.testing.assert_allclose(alone[0], latents[0], atol=1e-6)


def test_only_the_newest_frame_counts_unless_told_otherwise():
    images = jnp.zeros((1, 20, 20, 9), jnp.uint8)
    older, newest = images.at[..., :6].set(99), images.at[..., 6:].set(99)
    params = random_encoder.init(jax.random.key(0), PIXELS, num_filters=8)
    np.testing.assert_array_equal(encode(params, older), encode(params, images))
    assert abs(encode(params, newest) - encode(params, images)).max() > 1e-3
    stacked = {"image_input": "stacked_crop", "image_crop": 16}
    params = random_encoder.init(jax.random.key(0), PIXELS, num_filters=8, **stacked)
    encode_stack = jax.jit(partial(random_encoder.encode, **stacked))
    assert abs(encode_stack(params, older) - encode_stack(params, images)).max() > 1e-3
    border = images.at[:, :2].set(99).at[:, :, -2:].set(99)
    np.testing.assert_array_equal(encode_stack(params, border), encode_stack(params, images))


def test_pixel_encoders_of_seeds_can_be_vmapped():
    init = partial(random_encoder.init, spec=PIXELS, num_filters=4)
    params = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(1), 2))
    images = jax.random.randint(jax.random.key(2), (2, 3, 20, 20, 9), 0, 256).astype(jnp.uint8)
    together = jax.jit(jax.vmap(random_encoder.encode))(params, images)
    for seed in range(2):
        alone = encode(jax.tree.map(lambda leaf, s=seed: leaf[s], params), images[seed])
        np.testing.assert_allclose(together[seed], alone, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "options", "sentence"),
    [
        (
            (64, 64, 4),
            {},
            "whole frames of 3 channels: for grey frames set colours of the EnvSpec to 1",
        ),
        ((14, 64, 9), {}, "images of 14x64 pixels are too small"),
        ((64, 64, 9), {"image_input": "stacked_crop"}, "a crop of 84x84 does not fit images of"),
    ],
)
def test_images_that_cannot_be_encoded_are_refused(shape, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        random_encoder.init(jax.random.key(0), spec(shape, np.uint8), **options)


def test_unknown_schemes_are_refused():
    with pytest.raises(ValueError, match="unknown initialisation 'zeros'"):
        random_encoder.init(jax.random.key(0), MINIGRID, init="zeros")


@pytest.mark.parametrize(("image_input", "channels"), [("stacked_crop", 4), ("newest_frame", 1)])
def test_stacks_of_grey_frames_go_through_dqns_convolutions(image_input, channels):
    grey = dataclasses.replace(spec((84, 84, 4), np.uint8), colours=1)
    params = random_encoder.init(jax.random.key(0), grey, latent_dim=50, image_input=image_input)
    images = np.random.default_rng(0).integers(0, 256, (3, 84, 84, 4)).astype(np.uint8)
    latents = random_encoder.encode(params, jnp.asarray(images), image_input=image_input)
    x = torch.tensor(images[..., 4 - channels :]).permute(0, 3, 1, 2).float() / 255
    for layer, stride in zip(params.convs.layers, (4, 2, 1), strict=True):
        kernel = torch.tensor(np.array(layer.kernel)).permute(3, 2, 0, 1)
        x = F.relu(F.conv2d(x, kernel, torch.tensor(np.array(layer.bias)), stride))
    flat = x.permute(0, 2, 3, 1).flatten(1)
    assert flat.shape[1] == 3136
    expected = flat @ torch.tensor(np.array(params.output.kernel))
    expected = expected + torch.tensor(np.array(params.output.bias))
    np.testing.assert_allclose(latents, expected, rtol=1e-4, atol=1e-5)
