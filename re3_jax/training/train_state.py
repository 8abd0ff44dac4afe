"""The one pytree that holds all that a resumed run needs."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax.agents.base import AgentState
from re3_jax.envs.base import EnvState
from re3_jax.intrinsic.base import IntrinsicState


class Counters(NamedTuple):
    """Progress of one seed, int32.

    Attributes:
      agent_steps: actions taken, summed over lanes.
      env_frames: `agent_steps` times the action repeat; the x-axis of every curve.
      updates: gradient steps.
    """

    agent_steps: Int[Array, ""]
    env_frames: Int[Array, ""]
    updates: Int[Array, ""]

    @classmethod
    def zero(cls) -> "Counters":
        """All counters at the start of a run."""
        return cls(*(jnp.zeros((), jnp.int32) for _ in cls._fields))


class Lanes(NamedTuple):
    """The environments of one seed between two chunks.

    Attributes:
      env: their states.
      observation: what each shows now.
      episode_return: task reward since the lane's last reset.
      episode_length: agent steps since then.
    """

    env: EnvState
    observation: Shaped[Array, " lane *observation"]
    episode_return: Float[Array, " lane"]
    episode_length: Int[Array, " lane"]


class TrainState(NamedTuple):
    """State of one seed; a program over seeds gives every leaf a leading axis `seed`.

    Attributes:
      key: the random stream that training consumes.
      evaluation_key: root of the streams of evaluations, each folded in by its frame count.
    """

    agent: AgentState
    intrinsic: IntrinsicState
    lanes: Lanes
    counters: Counters
    key: PRNGKeyArray
    evaluation_key: PRNGKeyArray
