"""A batch of transitions: what replays return and off-policy agents learn from."""

from typing import NamedTuple

from jaxtyping import Array, Float, Shaped


class Later(NamedTuple):
    """What a transition of m steps has beside its first.

    Attributes:
      last_observation: o_{t+m} of the same episode.
      weight: sum_{k<m} gamma^k.
    """

    last_observation: Shaped[Array, " batch *observation"]
    weight: Float[Array, " batch"]


class Transitions(NamedTuple):
    """A batch of transitions sampled from a replay.

    Attributes:
      observation: o_t as stored; images are whole uint8 stacks, cropped by the agent.
      action: a_t.
      reward: task reward, summed over the action repeat; of several steps,
        sum_{k<m} gamma^k r_{t+k}.
      bonus: beta_t r_i of o_t, already scaled; added to the reward in the target.
      discount: 0 where the task ended at this step, else 1 (also where a time limit cut it); of
        several steps gamma^(m-1), or 0 where the task ended at one of them.
      next_observation: o_{t+1} of the same episode.
      later: the steps after the first, if there may be any.
    """

    observation: Shaped[Array, " batch *observation"]
    action: Shaped[Array, " batch *action"]
    reward: Float[Array, " batch"]
    bonus: Float[Array, " batch"]
    discount: Float[Array, " batch"]
    next_observation: Shaped[Array, " batch *observation"]
    later: Later | None = None

    @property
    def last_observation(self) -> Shaped[Array, " batch *observation"]:
        """o_{t+m}, whose value the target takes."""
        return self.next_observation if self.later is None else self.later.last_observation

    @property
    def bonuses(self) -> Float[Array, " batch"]:
        """The bonuses of all m steps, of which each is taken to be that of o_t."""
        return self.bonus if self.later is None else self.bonus * self.later.weight
