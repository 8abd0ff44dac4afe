"""A suite of your own: a corridor with a door at its end.

make run ENV=corridor:20 ARGS="--plugin examples/plugin_suite.py"
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.envs import registry
from re3_jax.envs.base import DeviceEnv, Discrete, EnvSpec, TimeStep
from re3_jax.runs import suites
from re3_jax.runs.config import EvaluationConfig
from re3_jax.runs.presets import minigrid


def corridor(length: int) -> DeviceEnv:
    """Action 1 moves forward, action 0 moves back to the start; the end pays 1."""
    limit = 4 * length
    spec = EnvSpec(f"corridor:{length}", (length + 1,), np.dtype(np.float32), Discrete(2), limit)

    def seen(place):
        return jax.nn.one_hot(place, length + 1, dtype=jnp.float32)

    def reset(key):
        return (jnp.int32(0), jnp.int32(0)), seen(0)

    def step(state, action, key):
        place, steps = jnp.where(action == 1, state[0] + 1, 0), state[1] + 1
        terminated, truncated = place == length, (steps == limit) & (place < length)
        done = terminated | truncated
        first = jnp.where(done, 0, place)
        paid = terminated.astype(jnp.float32)
        timestep = TimeStep(seen(first), paid, terminated, truncated, seen(place))
        return (first, jnp.where(done, 0, steps)), timestep

    return DeviceEnv(spec, reset, step)


def preset(task_id, name, agent):
    """The preset of every corridor: MiniGrid's with fewer frames."""
    config = minigrid.preset("Empty-16x16", name, agent)
    return replace(config, steps=50_000, evaluation=EvaluationConfig(6_400, 16))


registry.register("corridor", {str(n): lambda n=n: corridor(n) for n in (10, 20, 40)})
suites.register(suites.Suite("corridor", "corridors", "a2c", preset))
