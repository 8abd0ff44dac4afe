"""A pixel task that is learned in minutes on a CPU, to check a world model and its actor."""

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.envs.base import Box, DeviceEnv, EnvSpec, TimeStep

SIZE = 64
HALF_WIDTH = 6
"""Half the width of the bar in pixels."""

SPEED = 0.2
"""How far an action of 1 moves the bar, in widths of the image."""


def make(length: int = 12) -> DeviceEnv:
    """A white bar on 64x64 pixels that the action moves sideways, starting in the middle.

    With x in [0, 1] the position of the bar, each of `length` steps pays x on a red background and
    1 - x on a blue one. A policy that ignores the image gets `length / 2` on average; the maximum
    for 12 steps is 11.6. The action repeat is 2, so an agent step is two env frames.
    """
    spec = EnvSpec(
        "pixels:bar", (SIZE, SIZE, 3), np.dtype(np.uint8), Box((1,), -1.0, 1.0), length, 2
    )

    def observe(place, is_red):
        lit = jnp.abs(jnp.arange(SIZE) - (SIZE - 1) * place) < HALF_WIDTH
        colour = jnp.where(is_red, jnp.array([255, 0, 0]), jnp.array([0, 0, 255]))
        row = jnp.where(lit[:, None], 255, colour).astype(np.uint8)
        return jnp.broadcast_to(row, (SIZE, SIZE, 3))

    def reset(key):
        place, is_red = jnp.full((), 0.5, jnp.float32), jax.random.bernoulli(key)
        return (place, is_red, jnp.zeros((), jnp.int32)), observe(place, is_red)

    def step(state, action, key):
        before, is_red, steps = state
        place, steps = jnp.clip(before + SPEED * action[0], 0.0, 1.0), steps + 1
        ends = steps >= length
        first, seen = reset(key)
        now = place, is_red, steps
        return jax.tree.map(lambda new, old: jnp.where(ends, new, old), first, now), TimeStep(
            observation=jnp.where(ends, seen, observe(place, is_red)),
            reward=jnp.where(is_red, place, 1.0 - place),
            terminated=jnp.zeros((), bool),
            truncated=ends,
            final_observation=observe(place, is_red),
        )

    return DeviceEnv(spec, reset, step)
