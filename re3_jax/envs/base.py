"""The environment contract: a specification and two pure functions.

A device environment describes a *single* environment; loops `jax.vmap` it over
lanes. Auto-reset is *same-step*: when an episode ends, `TimeStep.observation` is
already the first observation of the next episode and `TimeStep.final_observation`
the last one of the episode that ended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

EnvState = Any
"""A pytree of arrays; only the environment that made it knows its content."""


@dataclass(frozen=True)
class Discrete:
    """Actions 0, ..., `num_actions` - 1 (int32 scalars)."""

    num_actions: int

    def executed(self, action: Int[Array, " *batch"]) -> Int[Array, " *batch"]:
        """What the environment is given where an agent chose `action`: the same."""
        return action


@dataclass(frozen=True)
class Box:
    """Real-valued actions of one shape (float32), bounded elementwise."""

    shape: tuple[int, ...]
    low: float
    high: float

    def executed(self, action: Float[Array, "..."]) -> Float[Array, "..."]:
        """What the environment is given where an agent chose `action`: the nearest in bounds."""
        return jnp.clip(action, self.low, self.high)


@dataclass(frozen=True)
class EnvSpec:
    """The static description of a task.

    Attributes:
      task: canonical name, `suite:id`.
      observation_shape: shape of one observation.
      observation_dtype: dtype of one observation.
      action_space: `Discrete` or `Box`.
      max_agent_steps: time limit of an episode in agent steps.
      action_repeat: env frames per agent step; counters and x-axes are env frames.
      colours: channels of one frame if observations are stacks of images: 3, or 1 for grey.
      frame_stack: newest frames in one observation, along its last axis; the newest is last.
    """

    task: str
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    action_space: Discrete | Box
    max_agent_steps: int
    action_repeat: int = 1
    colours: int = 3
    frame_stack: int = 1

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of one frame of the stack; with a stack of one, of an observation."""
        *leading, last = self.observation_shape
        return (*leading, last // self.frame_stack)


class TimeStep(NamedTuple):
    """The result of one step (of one environment; with a leading axis when vmapped).

    `terminated` means that the task ended and nothing follows; `truncated` that a time
    limit cut the episode. Both may be true at once.
    """

    observation: Shaped[Array, "*observation"]
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    final_observation: Shaped[Array, "*observation"]


class LaneStep(NamedTuple):
    """What one step of all lanes returns, on the host (NumPy) and on the device.

    Auto-reset is same-step: where an episode ended, `frame` is already the first of the next
    episode and `final_frame` the last of the one that ended; elsewhere both are equal.

    Attributes:
      frame: newest frame [lane, *frame_shape]; the whole observation where nothing is stacked.
      reward: float32 [lane], summed over the action repeat.
      terminated: bool [lane], the task ended and nothing follows.
      truncated: bool [lane], a time limit (or a lost worker) cut the episode.
      final_frame: [lane, *frame_shape].
      task_ended: bool [lane], whether for the learner nothing follows: `terminated`, or a life
        was lost in a game that goes on.
    """

    frame: Shaped[Any, " lane *frame"]
    reward: Float[Any, " lane"]
    terminated: Bool[Any, " lane"]
    truncated: Bool[Any, " lane"]
    final_frame: Shaped[Any, " lane *frame"]
    task_ended: Bool[Any, " lane"]

    @classmethod
    def of_device(cls, timestep: TimeStep) -> "LaneStep":
        """The step of lanes whose observations are not stacked."""
        return cls(
            timestep.observation,
            timestep.reward,
            timestep.terminated,
            timestep.truncated,
            timestep.final_observation,
            timestep.terminated,
        )


class CountableStates(NamedTuple):
    """A numbering of the states of an environment, to measure how many were visited.

    Attributes:
      number: state -> its number, int32 in 0, ..., `num_states` - 1.
      num_states: how many numbers there are.
      num_reachable: how many of them belong to states from which an action can be taken.
    """

    number: Callable[[EnvState], Int[Array, ""]]
    num_states: int
    num_reachable: int


class DeviceEnv(NamedTuple):
    """A pure-JAX environment.

    `reset(key) -> (state, observation)` and
    `step(state, action, key) -> (state, TimeStep)`; `key` of `step` seeds the next
    episode if this step ends the current one (and any noise of the step itself). `states` is
    None if the states cannot be counted.
    """

    spec: EnvSpec
    reset: Callable[[PRNGKeyArray], tuple[EnvState, Shaped[Array, "*observation"]]]
    step: Callable[
        [EnvState, Int[Array, ""] | Float[Array, "..."], PRNGKeyArray],
        tuple[EnvState, TimeStep],
    ]
    states: CountableStates | None = None
