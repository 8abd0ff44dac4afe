"""What an on-policy agent learns from."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int, Shaped


class Rollout(NamedTuple):
    """What `rollout_length` steps of `num_envs` lanes yield.

    Attributes:
      observation: o_t.
      action: a_t.
      reward: task reward of step t.
      bonus: beta_t r^int(o_t); zero without a bonus.
      terminated: whether the task ended with step t.
      truncated: whether a time limit ended it.
      next_observation: o_{t+1} of the same episode, also where the episode ended.
      last_observation: what the lanes show after the rollout.
    """

    observation: Shaped[Array, "time batch *observation"]
    action: Int[Array, "time batch"]
    reward: Float[Array, "time batch"]
    bonus: Float[Array, "time batch"]
    terminated: Bool[Array, "time batch"]
    truncated: Bool[Array, "time batch"]
    next_observation: Shaped[Array, "time batch *observation"]
    last_observation: Shaped[Array, " batch *observation"]
