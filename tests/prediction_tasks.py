"""One small task of each kind of observation and of actions, with batches and tiny networks."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch
from re3_jax.intrinsic.icm import ICMConfig, icm
from re3_jax.intrinsic.rnd import RNDConfig, rnd

BATCH, CROP = 12, 16
SIZES = {
    "hidden_dim": 24,
    "latent_dim": 6,
    "num_filters": 4,
    "image_crop": CROP,
    # Under "torch" the biases of so small an encoder outweigh the image.
    "encoder_init": "xavier",
}
TASKS = {
    "views": EnvSpec("minigrid:any", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 360),
    "pixels": EnvSpec("dmc:any", (20, 20, 9), np.dtype(np.uint8), Box((3,), -1.0, 1.0), 500),
    "vectors": EnvSpec("gymnax:any", (5,), np.dtype(np.float32), Discrete(3), 200),
    "joints": EnvSpec("brax:any", (5,), np.dtype(np.float32), Box((2, 2), -1.0, 1.0), 200),
}


INITS = {"rnd": rnd(RNDConfig(**SIZES)).init, "icm": icm(ICMConfig(**SIZES)).init}


@cache
def start(kind, task, seed=0):
    """The initial state of a bonus of these sizes."""
    return jax.jit(INITS[kind], static_argnums=1)(jax.random.key(seed), TASKS[task])


def make_batch(task, seed=0, size=BATCH):
    """Transitions between unrelated observations."""
    spec, rng = TASKS[task], np.random.default_rng(seed)

    def observations():
        shape = (size, *spec.observation_shape)
        if task == "pixels":
            # Large squares of bright and of dark images: the encoder averages noise away.
            brightest = rng.integers(20, 257, (size, 1, 1, 1))
            return (
                jnp.asarray(rng.integers(0, brightest, (size, 4, 4, 9)).astype(np.uint8))
                .repeat(5, axis=1)
                .repeat(5, axis=2)
            )
        if task == "views":
            return jnp.asarray(rng.integers(0, 11, shape).astype(np.uint8))
        return jnp.asarray(rng.normal(size=shape).astype(np.float32))

    if isinstance(spec.action_space, Discrete):
        action = rng.integers(0, spec.action_space.num_actions, size).astype(np.int32)
    else:
        action = rng.uniform(-1, 1, (size, *spec.action_space.shape)).astype(np.float32)
    return IntrinsicBatch(
        observation=observations(),
        action=jnp.asarray(action),
        next_observation=observations(),
        bonus_index=jnp.zeros(size, jnp.int32),
        agent_steps=jnp.int32(0),
    )


def centre(observation):
    """The centre that the pixel encoder sees of 20x20 images; other observations in full."""
    return observation[:, 2:18, 2:18] if observation.shape[1:3] == (20, 20) else observation
