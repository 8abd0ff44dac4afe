"""The one pytree that holds all that a resumed run needs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped, UInt8

from re3_jax.agents.base import AgentState
from re3_jax.agents.dreamer.agent import Belief
from re3_jax.envs.base import DeviceEnv, EnvState
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

    @classmethod
    def begin(cls, env: DeviceEnv, num_envs: int, key: PRNGKeyArray) -> "Lanes":
        """`num_envs` lanes, each at the start of an episode."""
        env_state, observation = jax.vmap(env.reset)(jax.random.split(key, num_envs))
        return cls(
            env=env_state,
            observation=observation,
            episode_return=jnp.zeros(num_envs, jnp.float32),
            episode_length=jnp.zeros(num_envs, jnp.int32),
        )


class HostLanes(NamedTuple):
    """The lane of one seed between two chunks.

    Attributes:
      env: what `HostEnv.get_state` returned when the state was last captured, as bytes: JAX
        would make the physics single precision.
      episode_return: task reward since the lane's last reset.
      episode_length: agent steps since then.
    """

    env: dict[str, Array]
    episode_return: Float[Array, ""]
    episode_length: Int[Array, ""]


class StackedLanes(NamedTuple):
    """The lanes of one seed.

    Attributes:
      env: empty; the engine cannot tell its state.
      episode_return: task reward since the lane's last reset.
      episode_length: agent steps since then.
      stack: newest frames, zero before the episode's first.
      screens: which were seen in the run so far (`screens`).
    """

    env: dict[str, Array]
    episode_return: Float[Array, " lane"]
    episode_length: Int[Array, " lane"]
    stack: UInt8[Array, "lane height width frames"]
    screens: Bool[Array, " place"]


class BelievingHostLanes(NamedTuple):
    """The lane of one seed between two chunks.

    Attributes:
      env: what `HostEnv.get_state` returned when the state was last captured, as bytes.
      episode_return: task reward since the lane's last reset.
      episode_length: agent steps since then.
      frame: what the lane shows now.
      belief: what Dreamer believes of it.
    """

    env: dict[str, Array]
    episode_return: Float[Array, " lane"]
    episode_length: Int[Array, " lane"]
    frame: UInt8[Array, "lane 64 64 channels"]
    belief: Belief


class TrainState(NamedTuple):
    """State of one seed; a program over seeds gives every leaf a leading axis `seed`.

    Attributes:
      key: the random stream that training consumes.
      evaluation_key: root of the streams of evaluations, each folded in by its frame count.
      visited: in which of the environment's states an action was taken in the run so far; None
        where they cannot be counted (`DeviceEnv.states`).
    """

    agent: AgentState
    intrinsic: IntrinsicState
    lanes: Lanes
    counters: Counters
    key: PRNGKeyArray
    evaluation_key: PRNGKeyArray
    visited: Bool[Array, " state"] | None
