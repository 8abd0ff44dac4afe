"""The random encoder: shapes, duplicates, ensembles, seeds, refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import random_encoder
from re3_jax.envs.base import Discrete, EnvSpec


def spec(shape, dtype):
    return EnvSpec("any:any", shape, np.dtype(dtype), Discrete(7), 360)


MINIGRID = spec((7, 7, 3), np.uint8)
encode = jax.jit(random_encoder.encode)


def views(number, seed=0):
    return jax.random.randint(jax.random.key(seed), (number, 7, 7, 3), 0, 6).astype(jnp.uint8)


def test_a_view_becomes_64_non_negative_float32():
    latents = encode(random_encoder.init(jax.random.key(0), MINIGRID), views(128))
    assert latents.shape == (128, 64)
    assert latents.dtype == jnp.float32
    assert latents.min() >= 0.0
    assert random_encoder.latent_dim_of(MINIGRID, 17) == 64


def test_equal_views_have_bit_equal_latents():
    """Otherwise a repeated state would be rewarded for rounding."""
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


def test_images_and_unknown_schemes_are_refused():
    with pytest.raises(ValueError, match=r"images of shape \(64, 64, 4\)"):
        random_encoder.init(jax.random.key(0), spec((64, 64, 4), np.uint8))
    with pytest.raises(ValueError, match="unknown initialisation 'zeros'"):
        random_encoder.init(jax.random.key(0), MINIGRID, init="zeros")
