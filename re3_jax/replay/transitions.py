"""A batch of transitions: what replays return and off-policy agents learn from."""

from typing import NamedTuple

from jaxtyping import Array, Float, Shaped


class Transitions(NamedTuple):
    """A batch of transitions sampled from a replay.

    Attributes:
      observation: o_t as stored; images are whole uint8 stacks, cropped by the agent.
      action: a_t.
      reward: task reward, summed over the action repeat.
      bonus: beta_t r_i, already scaled; added to the reward in the target.
      discount: 0 where the task ended at this step, else 1 (also where a time limit cut it).
      next_observation: o_{t+1} of the same episode.
    """

    observation: Shaped[Array, " batch *observation"]
    action: Shaped[Array, " batch *action"]
    reward: Float[Array, " batch"]
    bonus: Float[Array, " batch"]
    discount: Float[Array, " batch"]
    next_observation: Shaped[Array, " batch *observation"]
