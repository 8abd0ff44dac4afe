"""The random encoder against the same network in PyTorch with the same weights."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import random_encoder
from re3_jax.envs.base import Discrete, EnvSpec
from tests.torch_oracle.layers import latents as torch_latents

MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
VECTOR = EnvSpec("gymnax:any", (5,), np.dtype(np.float32), Discrete(2), 200)
encode = jax.jit(random_encoder.encode)


def views(number, seed=0):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, high, (number, 7, 7)) for high in (11, 6, 3)]
    return jnp.asarray(np.stack(codes, axis=-1), jnp.uint8)


@pytest.mark.parametrize("scheme", ["torch", "xavier", "he", "orthogonal"])
def test_minigrid_features_equal_pytorch(scheme):
    params = random_encoder.init(jax.random.key(3), MINIGRID, init=scheme)
    observation = views(64)
    expected = torch_latents(params, observation)
    assert expected.std() > 0.05
    np.testing.assert_allclose(encode(params, observation), expected, rtol=1e-5, atol=1e-5)


def test_weights_of_views_are_drawn_as_pytorch_draws_them():
    """U(-b, b) with b = 1 / sqrt(fan_in), for kernels and biases alike."""
    for layer in random_encoder.init(jax.random.key(6), MINIGRID):
        bound = np.prod(layer.kernel.shape[:-1]) ** -0.5
        assert abs(layer.kernel).max() <= bound
        np.testing.assert_allclose(layer.kernel.std(), bound / 3**0.5, rtol=0.15)
        assert 0 < abs(layer.bias).max() <= bound


def test_each_member_of_an_ensemble_equals_pytorch():
    init = partial(random_encoder.init, spec=MINIGRID, ensemble_size=3)
    params = jax.jit(init)(jax.random.key(4))
    observation = views(32, seed=1)
    latents = encode(params, observation)
    assert latents.shape == (3, 32, 64)
    for member in range(3):
        own = jax.tree.map(lambda leaf, m=member: leaf[m], params)
        expected = torch_latents(own, observation)
        np.testing.assert_allclose(latents[member], expected, rtol=1e-5, atol=1e-5)
    assert abs(latents[0] - latents[1]).max() > 0.1


def test_vector_features_equal_pytorch():
    params = random_encoder.init(jax.random.key(5), VECTOR, latent_dim=12)
    observation = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    expected = torch_latents(params, observation)
    np.testing.assert_allclose(encode(params, observation), expected, rtol=1e-5, atol=1e-5)
