"""Advantages and targets of a rollout, of one value function or two.

With one, the bonus is part of the reward (Equation 4 of the paper). With two, each has its own
rewards and discount; the bonus's returns do not end with episodes, and
A = c_E A_E + c_I A_I (RND: Burda et al., 2019, Section 2.3).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from re3_jax.agents.ppo import reward_scale
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.reward_scale import RewardScale
from re3_jax.agents.rollout import Rollout, next_values
from re3_jax.inheritance import inherits
from re3_jax.returns import generalized_advantage


@inherits()
class RewardScales(NamedTuple):
    """State of the scaling of each value's rewards; () where they are not scaled.

    Nothing is inherited: what pre-training saw in place of the task's rewards, the bonus or zeros,
    says nothing of them, and its bonus may have had another beta.
    """

    extrinsic: RewardScale | tuple[()]
    intrinsic: RewardScale | tuple[()]


def init_scales(config: PPOConfig) -> RewardScales:
    """The scales that `config.scaled_rewards` asks for."""
    scaled, lanes = config.scaled_rewards, config.num_envs
    has_own = config.intrinsic_value_head and scaled != "none"
    return RewardScales(
        extrinsic=reward_scale.init(lanes) if scaled == "all" else (),
        intrinsic=reward_scale.init(lanes) if has_own else (),
    )


def forget_episodes(scales: RewardScales) -> RewardScales:
    """The same where no lane's episode goes on: the sums of the task's rewards begin anew."""
    if not isinstance(scales.extrinsic, RewardScale):
        return scales
    nothing = jnp.zeros_like(scales.extrinsic.discounted_sum)
    return scales._replace(extrinsic=scales.extrinsic._replace(discounted_sum=nothing))


def estimate(
    config: PPOConfig,
    rollout: Rollout,
    value: Float[Array, "time+1 lane value"],
    final_value: Float[Array, "time lane"] | None,
    scales: RewardScales,
) -> tuple[Float[Array, "time lane"], Float[Array, "time lane value"], RewardScales]:
    """A, the targets R = V + A of each value, and the scales after this rollout.

    Args:
      config: the coefficients.
      rollout: with its bonus.
      value: of `observation` and, in the last row, of `last_observation`.
      final_value: the task's value of `next_observation`, to bootstrap time limits; or None.
      scales: of the rewards.
    """
    shares, reward = not config.intrinsic_value_head, rollout.reward
    if config.reward_clip is not None:
        reward = jnp.clip(reward, -config.reward_clip, config.reward_clip)
    reward = reward + rollout.bonus if shares else reward
    extrinsic, discount = scales.extrinsic, config.discount
    if isinstance(extrinsic, RewardScale):
        reward, extrinsic = reward_scale.scale(extrinsic, reward, rollout.done, discount)
    following = next_values(rollout, value[..., 0], final_value)
    advantage = generalized_advantage(
        reward, value[:-1, :, 0], following, rollout.done, discount, config.gae_lambda
    )
    if shares:
        return advantage, value[:-1] + advantage[..., None], RewardScales(extrinsic, ())

    bonus, intrinsic, discount = rollout.bonus, scales.intrinsic, config.intrinsic_discount
    never = jnp.zeros_like(rollout.done)
    if isinstance(intrinsic, RewardScale):
        bonus, intrinsic = reward_scale.scale(intrinsic, bonus, never, discount)
    of_bonus = generalized_advantage(
        bonus, value[:-1, :, 1], value[1:, :, 1], never, discount, config.gae_lambda
    )
    target = value[:-1] + jnp.stack([advantage, of_bonus], axis=-1)
    advantage = config.extrinsic_coef * advantage + config.intrinsic_coef * of_bonus
    return advantage, target, RewardScales(extrinsic, intrinsic)
