"""Divides rewards by the running standard deviation of their discounted sums.

OpenAI baselines' `VecNormalize` and CleanRL's `NormalizeReward` do so with the task's rewards, and
RND's authors with intrinsic ones. The sum of a lane is G_t = gamma G_(t-1) + r_t; it begins anew
with each episode, but for intrinsic rewards.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from re3_jax import running_stats
from re3_jax.inheritance import inherits
from re3_jax.running_stats import RunningStats

CLIP = 10.0
"""CleanRL's bound on scaled rewards."""


@inherits()
class RewardScale(NamedTuple):
    """Moments of all sums so far, and each lane's present sum."""

    stats: RunningStats
    discounted_sum: Float[Array, " lane"]


def init(num_lanes: int) -> RewardScale:
    """The state before any reward: no moments, and a sum of 0 in each lane."""
    return RewardScale(running_stats.init(), jnp.zeros(num_lanes))


def scale(
    state: RewardScale,
    reward: Float[Array, "time lane"],
    ends: Bool[Array, "time lane"],
    discount: float,
) -> tuple[Float[Array, "time lane"], RewardScale]:
    """A rollout's rewards over the deviation of all sums, its own included.

    They stay as they are while all sums are equal. A sum that is not finite begins anew.
    """

    def add(before: Float[Array, " lane"], step):
        reward, ends = step
        total = discount * before + reward
        return jnp.where(ends | ~jnp.isfinite(total), 0.0, total), total

    present, sums = jax.lax.scan(add, state.discounted_sum, (reward, ends))
    stats = running_stats.update(state.stats, sums.reshape(-1))
    std = running_stats.std(stats)
    scaled = jnp.clip(reward / jnp.where(std > 0, std, 1.0), -CLIP, CLIP)
    return scaled, RewardScale(stats, present)
