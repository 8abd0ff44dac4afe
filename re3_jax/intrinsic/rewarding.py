"""Rewarding a batch: the bonus, one step of its training, and what the log says of both."""

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from re3_jax.intrinsic import diagnostics
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, IntrinsicState


def reward_batch(
    bonus: IntrinsicReward, state: IntrinsicState, batch: IntrinsicBatch, key: PRNGKeyArray
) -> tuple[Float[Array, " batch"], IntrinsicState, Info]:
    """Rewards a batch with the bonus as it is, then trains the bonus on it (Algorithms 1 and 2).

    Returns:
      The rewards beta_t r_i; the state; what `reward` and `update` report, and
      `diagnostics.of_rewards`.
    """
    with jax.named_scope("bonus"):
        reward, state, info = bonus.reward(state, batch)
        state, trained = bonus.update(state, batch, key)
    return reward, state, {**info, **trained, **diagnostics.of_rewards(reward)}
