"""gymnax 1.x tasks as device environments.

gymnax already resets in the same step and separates termination, truncation and the last
observation of an episode. This module rescales actions and gives every array a fixed dtype, so that
`lax.scan` can carry a state and a checkpoint can store it.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from re3_jax.envs.base import Box, CountableStates, DeviceEnv, Discrete, EnvSpec, TimeStep
from re3_jax.envs.names import pip_install, unknown_name

_DEEP_SEA = "DeepSea-bsuite"
_MOST_ROWS = math.isqrt(2**31 - 1)
_SIZED = re.compile(rf"({_DEEP_SEA})-([1-9]\d*)")

TASKS = (
    "CartPole-v1",
    "Pendulum-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Asterix-MinAtar",
    "Breakout-MinAtar",
    "Freeway-MinAtar",
    "Seaquest-MinAtar",
    "SpaceInvaders-MinAtar",
    "Catch-bsuite",
    "DeepSea-bsuite",
    "MemoryChain-bsuite",
    "UmbrellaChain-bsuite",
    "DiscountingChain-bsuite",
    "MNISTBandit-bsuite",
    "SimpleBandit-bsuite",
    "FourRooms-misc",
    "MetaMaze-misc",
    "PointRobot-misc",
    "BernoulliBandit-misc",
    "GaussianBandit-misc",
    "Reacher-misc",
    "Swimmer-misc",
    "Pong-misc",
    "FrozenLake-misc",
)
"""Every task that `make` accepts, and DeepSea of any size. Written down, because importing gymnax
starts JAX's backend, after which its devices are fixed."""


def make(name: str) -> DeviceEnv:
    """The gymnax environment `name` with its default parameters.

    Observations keep gymnax's shape and become float32. Those of MinAtar, planes of zeros and ones,
    become bool, so that a replay holds four times as many. An episode that reaches
    `max_steps_in_episode` is truncated, not terminated; where the task itself ends at that step
    (DeepSea), both flags are true. Continuous actions are in [-1, 1] and are rescaled to the
    environment's own bounds.

    Args:
      name: gymnax's own id, such as "CartPole-v1"; "DeepSea-bsuite-20" is DeepSea with 20 rows
        instead of its default 8.

    Raises:
      ImportError: if gymnax is not installed.
      ValueError: if gymnax knows no such id, or if the environment cannot be described
        by an `EnvSpec` (observations that are not one array, actions without bounds, data that
        would have to be downloaded).
    """
    sized = _SIZED.fullmatch(name)
    gymnax_id, options = (sized[1], {"size": int(sized[2])}) if sized else (name, {})
    if gymnax_id not in TASKS:
        raise unknown_name("gymnax task", name, TASKS)
    if sized and int(sized[2]) > _MOST_ROWS:
        raise ValueError(
            f"gymnax:{name} has more cells than 32-bit numbers count: at most {_MOST_ROWS} rows"
        )
    gymnax = _import_gymnax()
    try:
        env, params = gymnax.make(gymnax_id, **options)
    except OSError as error:
        raise ValueError(
            f"gymnax cannot make {name!r} without data that it downloads itself ({error}); "
            "call gymnax.make once with a network connection"
        ) from error

    action_space, to_gymnax = _actions(name, env.action_space(params))
    dtype = np.dtype(bool if name.endswith("-MinAtar") else np.float32)

    def seen(observation: Any) -> Array:
        """A single number, such as FrozenLake's, becomes a vector of one."""
        return jnp.atleast_1d(jnp.asarray(observation, dtype))

    def reset(key: PRNGKeyArray):
        observation, state = env.reset(key, params)
        return _strong(state), seen(observation)

    def step(state, action, key: PRNGKeyArray):
        observation, state, reward, terminated, truncated, info = env.step(
            key, state, to_gymnax(action), params
        )
        return _strong(state), TimeStep(
            observation=seen(observation),
            reward=jnp.asarray(reward, jnp.float32),
            terminated=jnp.asarray(terminated, jnp.bool),
            truncated=jnp.asarray(truncated, jnp.bool),
            final_observation=seen(info["final_observation"]),
        )

    observation = jax.eval_shape(lambda key: env.reset(key, params)[0], jax.random.key(0))
    if not isinstance(observation, jax.ShapeDtypeStruct):
        raise ValueError(f"gymnax:{name} observes more than one array, which no agent here reads")
    spec = EnvSpec(
        task=f"gymnax:{name}",
        observation_shape=observation.shape or (1,),
        observation_dtype=dtype,
        action_space=action_space,
        max_agent_steps=int(params.max_steps_in_episode),
    )
    states = _cells(env.size) if gymnax_id == _DEEP_SEA else None
    return DeviceEnv(spec, reset, step, states)


def _cells(size: int) -> CountableStates:
    """DeepSea's cells; in row i the diver can be in the columns 0 to i."""

    def number(state: Any) -> Array:
        return state.row * size + state.column

    return CountableStates(number, size**2, size * (size + 1) // 2)


def _import_gymnax() -> Any:
    try:
        import gymnax
    except ImportError as error:
        raise ImportError(
            f"gymnax tasks need the package gymnax ({error}): {pip_install('gymnax==1.0.1', 'six')}"
        ) from error
    return gymnax


def _strong(state: Any) -> Any:
    """`state` with the same dtypes but no weak types, so that reset and step agree."""
    return jax.tree.map(
        lambda leaf: jax.lax.convert_element_type(leaf, jnp.result_type(leaf)), state
    )


def _actions(name: str, space: Any) -> tuple[Discrete | Box, Callable[[Array], Array]]:
    """The action space that agents see, and the map from it to gymnax's own."""
    if hasattr(space, "n"):
        return Discrete(int(space.n)), lambda action: action
    shape = tuple(space.shape)
    low, high = (np.broadcast_to(np.asarray(x, np.float32), shape) for x in (space.low, space.high))
    if not np.all(np.isfinite(low) & np.isfinite(high)):
        raise ValueError(f"gymnax:{name} has actions without bounds, which is not supported")
    middle, half = (low + high) / 2, (high - low) / 2
    return Box(shape, -1.0, 1.0), lambda action: middle + half * action
