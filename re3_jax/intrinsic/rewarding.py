"""Rewards a batch, trains the bonus on it and collects the diagnostics of both."""

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from re3_jax.intrinsic import diagnostics
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, IntrinsicState


def reward_batch(
    bonus: IntrinsicReward, state: IntrinsicState, batch: IntrinsicBatch, key: PRNGKeyArray
) -> tuple[Float[Array, " batch"], IntrinsicState, Info]:
    """Rewards a batch, then trains the bonus on it (Algorithms 1 and 2).

    Returns:
      The rewards beta_t r_i, the new state, and the merged infos of `reward`, `update` and
      `diagnostics.of_rewards`.
    """
    with jax.named_scope("bonus"):
        reward, state, info = bonus.reward(state, batch)
        state, trained = bonus.update(state, batch, key)
    return reward, state, {**info, **trained, **diagnostics.of_rewards(reward)}
