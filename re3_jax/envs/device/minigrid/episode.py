"""What every MiniGrid task has in common: its specification, its reward and its time limit."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.envs.device.minigrid.codes import VIEW, Scalar


def specification(name: str, max_agent_steps: int) -> EnvSpec:
    """The specification of `minigrid:name`."""
    return EnvSpec(
        task=f"minigrid:{name}",
        observation_shape=(VIEW, VIEW, 3),
        observation_dtype=np.dtype(np.uint8),
        action_space=Discrete(7),
        max_agent_steps=max_agent_steps,
    )


def outcome(
    spec: EnvSpec, agent_steps: Scalar, succeeded: Bool[Array, ""]
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """Reward of a step, and whether the time limit cuts the episode after it.

    Args:
      spec: the task.
      agent_steps: agent steps of the episode, this one included.
      succeeded: whether this step completes the task.
    """
    fraction = agent_steps.astype(jnp.float32) / spec.max_agent_steps
    reward = jnp.where(succeeded, 1 - 0.9 * fraction, 0.0)
    return reward, agent_steps >= spec.max_agent_steps
