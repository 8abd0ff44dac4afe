"""The random encoder of pixel images against the released code's network in PyTorch."""

import jax
import numpy as np
import pytest

from re3_jax import random_encoder
from re3_jax.envs.base import Box, EnvSpec
from tests.torch_oracle.layers import latents as torch_latents

FILTERS, LATENT = 4, 50
SPEC = EnvSpec("dmc:any", (26, 24, 9), np.dtype(np.uint8), Box((2,), -1.0, 1.0), 500)
NEWEST = {"image_input": "newest_frame"}
STACKED = {"image_input": "stacked_crop", "image_crop": 20}


def frames(number, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (number, *SPEC.observation_shape), np.uint8)


def draw(seed, **options):
    def init(key):
        return random_encoder.init(key, SPEC, latent_dim=LATENT, num_filters=FILTERS, **options)

    return jax.jit(init)(jax.random.key(seed))


def encode(params, observation, options):
    return jax.jit(lambda p, o: random_encoder.encode(p, o, **options))(params, observation)


@pytest.mark.parametrize("scheme", ["torch", "xavier", "he", "orthogonal"])
def test_the_newest_whole_frame_is_encoded(scheme):
    params, observation = draw(0, init=scheme, **NEWEST), frames(5)
    latents = encode(params, observation, NEWEST)
    expected = torch_latents(params, observation[..., 6:])
    assert expected.std() > 0.3
    np.testing.assert_allclose(latents, expected, atol=2e-5)


@pytest.mark.parametrize("torso", ["rad", "patches"])
def test_the_centre_crop_of_the_whole_stack_is_encoded(torso):
    params, observation = draw(1, torso=torso, **STACKED), frames(5)
    assert params.convs.strides == {"rad": (2, 1, 1, 1), "patches": (4,)}[torso]
    side = {"rad": 3, "patches": 4}[torso]
    assert params.convs.layers[0].kernel.shape[:2] == (side, side)
    expected = torch_latents(params, observation[:, 3:23, 2:22])
    np.testing.assert_allclose(encode(params, observation, STACKED), expected, atol=2e-5)


@pytest.mark.parametrize("options", [NEWEST, STACKED], ids=["newest", "stacked"])
def test_each_member_of_an_ensemble_equals_pytorch(options):
    params, observation = draw(2, ensemble_size=2, **options), frames(3)
    latents = encode(params, observation, options)
    image = observation[..., 6:] if options is NEWEST else observation[:, 3:23, 2:22]
    for member in range(2):
        own = jax.tree.map(lambda leaf, m=member: leaf[m], params)
        np.testing.assert_allclose(latents[member], torch_latents(own, image), atol=2e-5)
    assert abs(latents[0] - latents[1]).max() > 0.1


def test_weights_are_drawn_as_pytorch_draws_them():
    """U(-b, b) with b = 1 / sqrt(fan_in), for kernels and biases alike."""
    params = draw(3, **NEWEST)
    layers = [*params.convs.layers, params.output]
    for layer in layers:
        bound = np.prod(layer.kernel.shape[:-1]) ** -0.5
        values = np.asarray(layer.kernel).ravel()
        assert abs(values).max() <= bound
        np.testing.assert_allclose(values.std(), bound / 3**0.5, rtol=0.15)
        assert 0 < abs(layer.bias).max() <= bound
