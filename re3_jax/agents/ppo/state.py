"""What PPO learns, and how its networks see observations."""

from typing import NamedTuple

import optax
from jaxtyping import Array, Shaped

from re3_jax import whitening
from re3_jax.agents.ppo.advantages import RewardScales
from re3_jax.agents.ppo.networks import ActorCritic
from re3_jax.inheritance import inherits
from re3_jax.running_stats import RunningStats

CLIP = 10.0
"""CleanRL's bound on normalised observations."""


@inherits("params", "seen")
class PPOState(NamedTuple):
    """What the agent learns.

    Attributes:
      params: the networks.
      opt_state: Adam's moments.
      seen: moments of each element of the observations; () unless they are normalised.
      reward_scales: what rewards are divided by.
    """

    params: ActorCritic
    opt_state: optax.OptState
    seen: RunningStats | tuple[()]
    reward_scales: RewardScales


def as_seen(
    state: PPOState, observation: Shaped[Array, " batch *observation"]
) -> Shaped[Array, " batch *observation"]:
    """The observations as the networks see them: whitened if they are normalised."""
    if not isinstance(state.seen, RunningStats):
        return observation
    return whitening.whiten(state.seen, observation, CLIP)
