"""What an on-policy agent learns from."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped


class Rollout(NamedTuple):
    """What `rollout_length` steps of `num_envs` lanes yield.

    Attributes:
      observation: o_t.
      action: a_t as the policy chose it; the environment clips it to the bounds of a `Box`.
      reward: task reward of step t.
      bonus: beta_t r^int(o_t); zero without a bonus.
      terminated: whether the task ended with step t.
      truncated: whether a time limit ended it.
      next_observation: o_{t+1} of the same episode, also where the episode ended.
      last_observation: what the lanes show after the rollout.
      state_number: `CountableStates.counted` of the states in which the actions were taken; None
        where states are not numbered.
      first_memory: what the lanes carried before the first action, for agents that remember.
      life_lost: whether a life was lost in a game that goes on, which ends the task for the agent
        and no episode of the bonus; None where there are no lives.
    """

    observation: Shaped[Array, "time batch *observation"]
    action: Shaped[Array, "time batch *action"]
    reward: Float[Array, "time batch"]
    bonus: Float[Array, "time batch"]
    terminated: Bool[Array, "time batch"]
    truncated: Bool[Array, "time batch"]
    next_observation: Shaped[Array, "time batch *observation"]
    last_observation: Shaped[Array, " batch *observation"]
    state_number: Int[Array, "time batch"] | None = None
    first_memory: Any = None
    life_lost: Bool[Array, "time batch"] | None = None

    @property
    def done(self) -> Bool[Array, "time batch"]:
        """Whether step t ended the episode for the agent: the task, a time limit or a lost life."""
        ended = self.terminated | self.truncated
        return ended if self.life_lost is None else ended | self.life_lost


def next_values(
    rollout: Rollout,
    value: Float[Array, "time+1 batch"],
    final_value: Float[Array, "time batch"] | None,
) -> Float[Array, "time batch"]:
    """V'_t for generalised advantage estimation.

    Args:
      rollout: says where episodes ended.
      value: V of `observation` and, in the last row, of `last_observation`.
      final_value: V of `next_observation`, to bootstrap where only a time limit ended the episode;
        None treats a time limit as the end of the task.
    """
    following = jnp.where(rollout.done, 0.0, value[1:])
    if final_value is None:
        return following
    is_cut = rollout.truncated & ~rollout.terminated
    if rollout.life_lost is not None:
        is_cut &= ~rollout.life_lost
    return jnp.where(is_cut, final_value, following)
