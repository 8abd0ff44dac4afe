"""brax tasks as device environments.

brax's own auto-reset returns a lane to the one state that it started from. Here every episode
starts from a new draw of the task's own distribution, and the last observation of the episode that
ended is kept.
"""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.envs.base import Box, DeviceEnv, EnvSpec, TimeStep
from re3_jax.envs.names import pip_install, unknown_name

EPISODE_LENGTH = 1000
"""Agent steps after which brax's training truncates an episode."""

TASKS = (
    "ant",
    "halfcheetah",
    "hopper",
    "humanoid",
    "humanoidstandup",
    "inverted_double_pendulum",
    "inverted_pendulum",
    "pusher",
    "reacher",
    "swimmer",
    "walker2d",
)
"""Every task that `make` accepts."""


class BraxState(NamedTuple):
    """A brax state and the agent steps taken in its episode."""

    brax: Any
    agent_steps: Int[Array, ""]


def make(name: str) -> DeviceEnv:
    """The brax task `name`, with the physics for which brax tunes its tasks, `generalized`.

    Actions are in [-1, 1], as in brax. An episode is truncated after `EPISODE_LENGTH` steps, and
    terminated where brax sets `done`.

    Args:
      name: one of `TASKS`.

    Raises:
      ImportError: if brax is not installed.
      ValueError: if there is no such task.
    """
    envs = import_brax()
    if name not in TASKS:
        raise unknown_name("brax task", name, TASKS)
    with warnings.catch_warnings(), _without_mujocos_log():
        _ignore_what_brax_says_of_itself()
        env = envs.get_environment(name, backend="generalized")

    # `jit`, because brax takes seconds to trace and a run's programs call both many times.
    @jax.jit
    def reset(key: PRNGKeyArray) -> tuple[BraxState, Float[Array, " observation"]]:
        with warnings.catch_warnings():
            _ignore_what_brax_says_of_itself()
            state = env.reset(key)
        return BraxState(state, jnp.zeros((), jnp.int32)), state.obs

    @jax.jit
    def step(state: BraxState, action: Float[Array, " action"], key: PRNGKeyArray):
        with warnings.catch_warnings():
            _ignore_what_brax_says_of_itself()
            # brax writes into the dictionaries of its input state: pass a copy.
            after = env.step(jax.tree.map(lambda leaf: leaf, state.brax), action)
        agent_steps = state.agent_steps + 1
        terminated = jnp.asarray(after.done, bool)
        truncated = agent_steps >= EPISODE_LENGTH
        fresh, first_observation = reset(key)
        done = terminated | truncated
        following = jax.tree.map(
            lambda new, old: jnp.where(done, new, jnp.asarray(old, new.dtype)),
            fresh,
            BraxState(after, agent_steps),
        )
        return following, TimeStep(
            observation=jnp.where(done, first_observation, after.obs),
            reward=jnp.asarray(after.reward, jnp.float32),
            terminated=terminated,
            truncated=truncated,
            final_observation=after.obs,
        )

    _, observation = jax.eval_shape(reset, jax.random.key(0))
    spec = EnvSpec(
        task=f"brax:{name}",
        observation_shape=observation.shape,
        observation_dtype=np.dtype(np.float32),
        action_space=Box((env.action_size,), -1.0, 1.0),
        max_agent_steps=EPISODE_LENGTH,
    )
    return DeviceEnv(spec=spec, reset=reset, step=step)


def import_brax() -> Any:
    """The module `brax.envs`, without the warnings of its import.

    Raises:
      ImportError: if brax is not installed.
    """
    try:
        with warnings.catch_warnings():
            _ignore_what_brax_says_of_itself()
            from brax import envs
    except ImportError as error:
        raise ImportError(
            f"brax tasks need the package brax ({error}): {pip_install('brax==0.14.2')}"
        ) from error
    return envs


@contextlib.contextmanager
def _without_mujocos_log() -> Iterator[None]:
    """Keeps MuJoCo from writing warnings about brax's own model files into a log file."""
    import mujoco

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _ignore_what_brax_says_of_itself() -> None:
    """Ignores three warnings: brax and jaxopt are unmaintained; brax reads MJX's internals."""
    for message, category in (
        ("Brax System, piplines and environments", UserWarning),
        ("JAXopt is no longer maintained", DeprecationWarning),
        ("Accessing `.*` directly from `Data` is deprecated", DeprecationWarning),
    ):
        warnings.filterwarnings("ignore", message, category)
