"""The random encoder against the same network in PyTorch with the same weights."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax import random_encoder
from re3_jax.envs.base import Discrete, EnvSpec

MINIGRID = EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360)
VECTOR = EnvSpec("gymnax:any", (5,), np.dtype(np.float32), Discrete(2), 200)
encode = jax.jit(random_encoder.encode)


def views(number, seed=0):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, high, (number, 7, 7)) for high in (11, 6, 3)]
    return jnp.asarray(np.stack(codes, axis=-1), jnp.uint8)


def tensor(array):
    return torch.tensor(np.array(array))


def torch_stack(params):
    convs = []
    for layer in params:
        conv = torch.nn.Conv2d(layer.kernel.shape[-2], layer.kernel.shape[-1], kernel_size=2)
        conv.weight.data = tensor(layer.kernel).permute(3, 2, 0, 1)
        conv.bias.data = tensor(layer.bias)
        convs.append(conv)
    relu, pool = torch.nn.ReLU(), torch.nn.MaxPool2d(2)
    return torch.nn.Sequential(convs[0], relu, pool, convs[1], relu, convs[2], relu)


def torch_features(params, observation):
    with torch.no_grad():
        x = tensor(observation).float().permute(0, 3, 1, 2)
        return torch_stack(params)(x).flatten(1).numpy()


@pytest.mark.parametrize("scheme", ["torch", "xavier", "he", "orthogonal"])
def test_minigrid_features_equal_pytorch(scheme):
    params = random_encoder.init(jax.random.key(3), MINIGRID, init=scheme)
    observation = views(64)
    expected = torch_features(params, observation)
    assert expected.std() > 0.05
    np.testing.assert_allclose(encode(params, observation), expected, rtol=1e-5, atol=1e-5)


def test_each_member_of_an_ensemble_equals_pytorch():
    init = partial(random_encoder.init, spec=MINIGRID, ensemble_size=3)
    params = jax.jit(init)(jax.random.key(4))
    observation = views(32, seed=1)
    latents = encode(params, observation)
    assert latents.shape == (3, 32, 64)
    for member in range(3):
        own = jax.tree.map(lambda leaf, m=member: leaf[m], params)
        expected = torch_features(own, observation)
        np.testing.assert_allclose(latents[member], expected, rtol=1e-5, atol=1e-5)
    assert abs(latents[0] - latents[1]).max() > 0.1


def test_vector_features_equal_pytorch():
    params = random_encoder.init(jax.random.key(5), VECTOR, latent_dim=12)
    net = torch.nn.Sequential(torch.nn.Linear(5, 256), torch.nn.ReLU(), torch.nn.Linear(256, 12))
    for layer, own in ((net[0], params.hidden), (net[2], params.output)):
        layer.weight.data, layer.bias.data = tensor(own.kernel).T, tensor(own.bias)
    observation = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    with torch.no_grad():
        expected = net(tensor(observation)).numpy()
    np.testing.assert_allclose(encode(params, observation), expected, rtol=1e-5, atol=1e-5)
