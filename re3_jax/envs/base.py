"""The environment contract: a specification and two pure functions.

A device environment describes a *single* environment; loops `jax.vmap` it over
lanes. Auto-reset is *same-step*: when an episode ends, `TimeStep.observation` is
already the first observation of the next episode and `TimeStep.final_observation`
the last one of the episode that ended.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from re3_jax import checks
from re3_jax.cpu import flat_random

EnvState = Any
"""A pytree of arrays; only the environment that made it knows its content."""

AnyArray = TypeVar("AnyArray", Array, np.ndarray)
"""An array of the device (JAX) or of the host (NumPy)."""


@dataclass(frozen=True)
class Discrete:
    """Actions 0, ..., `num_actions` - 1 (int32 scalars)."""

    num_actions: int

    def __post_init__(self) -> None:
        """Validates the field."""
        checks.at_least(self, 1, "num_actions")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an action."""
        return ()

    @property
    def dtype(self) -> np.dtype:
        """int32."""
        return np.dtype(np.int32)

    @property
    def num_outputs(self) -> int:
        """Numbers that a network gives, or is given, for an action: one for each choice."""
        return self.num_actions

    def executed(self, action: AnyArray) -> AnyArray:
        """What the environment is given where an agent chose `action`: the same."""
        return action

    def sample(self, key: PRNGKeyArray, count: int) -> Int[Array, " count"]:
        """Uniformly random actions."""
        return jax.random.randint(key, (count,), 0, self.num_actions, jnp.int32)


@dataclass(frozen=True)
class Box:
    """Real-valued actions of one shape (float32), bounded elementwise."""

    shape: tuple[int, ...]
    low: float
    high: float

    def __post_init__(self) -> None:
        """Validates the bounds."""
        if not self.low < self.high:
            raise ValueError(f"low ({self.low}) must be below high ({self.high})")

    @property
    def dtype(self) -> np.dtype:
        """float32."""
        return np.dtype(np.float32)

    @property
    def num_outputs(self) -> int:
        """Numbers that a network gives, or is given, for an action: one for each coordinate."""
        return math.prod(self.shape)

    def executed(self, action: AnyArray) -> AnyArray:
        """What the environment is given where an agent chose `action`: the nearest in bounds."""
        return action.clip(self.low, self.high)

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, " count *action"]:
        """Uniformly random actions."""
        shape = count, *self.shape
        return flat_random.uniform(key, shape, jnp.float32, self.low, self.high)


@dataclass(frozen=True)
class EnvSpec:
    """The static description of a task.

    Attributes:
      task: canonical name, `suite:id`.
      observation_shape: shape of one observation.
      observation_dtype: dtype of one observation.
      action_space: `Discrete` or `Box`.
      max_agent_steps: time limit of an episode in agent steps.
      action_repeat: env frames per agent step; a run's length and x-axes are in env frames.
      colours: channels of one frame if observations are stacks of images: 3, or 1 for grey.
      frame_stack: newest frames in one observation, along its last axis; the newest is last. 1 on
        the device, where an environment that shows several puts them together itself.
      num_states: states that a count can tell apart (`CountableStates.num_counted`); None if the
        task numbers none. `registry.make` sets it.

    Raises:
      TypeError: if the shape or the space of actions is something else.
      ValueError: if a number is below 1, or the last axis holds no whole number of frames.
    """

    task: str
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    action_space: Discrete | Box
    max_agent_steps: int
    action_repeat: int = 1
    colours: int = 3
    frame_stack: int = 1
    num_states: int | None = None

    def __post_init__(self) -> None:
        """Refuses what is no shape and no space of actions, such as Gymnasium's."""
        shape, space = self.observation_shape, self.action_space
        if not isinstance(shape, tuple | list):
            raise TypeError(f"observation_shape is {shape!r}: give a tuple, such as (4,)")
        object.__setattr__(self, "observation_shape", tuple(shape))
        if not isinstance(space, Discrete | Box):
            raise TypeError(
                f"action_space is a {type(space).__module__}.{type(space).__qualname__}: give a "
                "Discrete or a Box of re3_jax.envs.base"
            )
        checks.at_least(self, 1, "max_agent_steps", "action_repeat", "colours", "frame_stack")
        if self.num_states is not None:
            checks.at_least(self, 1, "num_states")
        if self.frame_stack > 1 and (not shape or shape[-1] % self.frame_stack):
            raise ValueError(
                f"frame_stack is {self.frame_stack}, but observations of shape {tuple(shape)} hold "
                "no whole number of such frames in their last axis"
            )

    @property
    def is_spatial(self) -> bool:
        """Whether observations are [height, width, channels], of whatever dtype."""
        return len(self.observation_shape) == 3

    @property
    def is_image(self) -> bool:
        """Whether observations are uint8 [height, width, channels]."""
        return self.is_spatial and np.dtype(self.observation_dtype) == np.uint8

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

    @property
    def ended(self) -> Bool[Array, ""]:
        """Whether the episode ended at this step."""
        return self.terminated | self.truncated


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
      state_number: int32 [lane], `CountableStates.counted` of the states in which the actions were
        taken; None where states are not numbered.
    """

    frame: Shaped[Any, " lane *frame"]
    reward: Float[Any, " lane"]
    terminated: Bool[Any, " lane"]
    truncated: Bool[Any, " lane"]
    final_frame: Shaped[Any, " lane *frame"]
    task_ended: Bool[Any, " lane"]
    state_number: Int[Any, " lane"] | None = None

    @property
    def ended(self) -> Bool[Any, " lane"]:
        """Whether the episode of the environment ended at this step."""
        return self.terminated | self.truncated

    @property
    def done(self) -> Bool[Any, " lane"]:
        """Whether this step ended the episode for the agent: the task, a limit or a lost life."""
        return self.task_ended | self.truncated

    @classmethod
    def zeros(cls, frame: Shaped[Any, " lane *frame"]) -> "LaneStep":
        """A step without reward that ends no episode, from `frame` to itself; NumPy arrays."""
        flag, reward = np.zeros(len(frame), bool), np.zeros(len(frame), np.float32)
        return cls(frame, reward, flag, flag, frame, flag)

    @classmethod
    def of_device(
        cls, timestep: TimeStep, state_number: Int[Array, " lane"] | None = None
    ) -> "LaneStep":
        """The step of lanes whose observations are not stacked."""
        return cls(
            timestep.observation,
            timestep.reward,
            timestep.terminated,
            timestep.truncated,
            timestep.final_observation,
            timestep.terminated,
            state_number,
        )


class CountableStates(NamedTuple):
    """A numbering of the states of an environment.

    Coverage is the share of places (`number`) that were visited. Counts also tell apart what the
    agent has done to the objects at a place, such as a key carried or a door opened.

    Attributes:
      number: state -> number of its place, int32 in 0, ..., `num_states` - 1.
      num_states: how many places there are.
      num_reachable: how many of them belong to states from which an action can be taken.
      objects: state -> number of what has become of the objects, int32 in 0, ...,
        `num_objects` - 1.
      num_objects: how many such numbers there are.
    """

    number: Callable[[EnvState], Int[Array, ""]]
    num_states: int
    num_reachable: int
    objects: Callable[[EnvState], Int[Array, ""]] = lambda state: jnp.int32(0)
    num_objects: int = 1

    def counted(self, state: EnvState) -> Int[Array, ""]:
        """The number of the place and the objects together, below `num_counted`."""
        return self.objects(state) * self.num_states + self.number(state)

    @property
    def num_counted(self) -> int:
        """How many states a count tells apart."""
        return self.num_states * self.num_objects


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
