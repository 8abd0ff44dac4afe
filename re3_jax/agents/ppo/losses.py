"""The clipped objective of PPO on one minibatch (Schulman et al., 2017, Eq. 7 and 9)."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from re3_jax.agents.base import Info
from re3_jax.agents.ppo import networks
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.memory import Past
from re3_jax.agents.ppo.networks import ActorCritic

STD_EPSILON = 1e-8
"""CleanRL's number; it is added to the deviation by which the advantages are divided."""


class Minibatch(NamedTuple):
    """Steps of a rollout.

    Attributes:
      observation: as the networks see it.
      action: as the policy chose it.
      log_probability: log pi_old(a|o), of the policy that chose it.
      value: V_old(o).
      advantage: A, the coefficients of its parts included.
      target: R, what each value is to become.
      past: of a recurrent agent, whose steps run over the time, then the lanes.
    """

    observation: Shaped[Array, " batch *observation"]
    action: Shaped[Array, " batch *action"]
    log_probability: Float[Array, " batch"]
    value: Float[Array, "batch value"]
    advantage: Float[Array, " batch"]
    target: Float[Array, "batch value"]
    past: Past | None = None


def ppo_loss(
    params: ActorCritic, batch: Minibatch, config: PPOConfig
) -> tuple[Float[Array, ""], Info]:
    """L = L_clip - c_H mean(H) + c_V L_V.

    L_clip = -mean(min(rho A, clip(rho, 1 - epsilon, 1 + epsilon) A)) with the ratio
    rho = pi(a|o) / pi_old(a|o) and A normalised over the minibatch. L_V is half the mean squared
    error, the larger of those with and without the value clipped, summed over the values.
    """
    policy, value = networks.policy_and_values(params, batch.observation, batch.past)
    log_ratio = policy.log_probability(batch.action) - batch.log_probability
    ratio, epsilon = jnp.exp(log_ratio), config.clip_epsilon
    advantage = batch.advantage - jnp.mean(batch.advantage)
    advantage = advantage / (jnp.std(batch.advantage, ddof=1) + STD_EPSILON)
    clipped_ratio = jnp.clip(ratio, 1.0 - epsilon, 1.0 + epsilon)
    policy_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped_ratio * advantage))

    error = jnp.square(value - batch.target)
    if config.clip_value_loss:
        clipped_value = batch.value + jnp.clip(value - batch.value, -epsilon, epsilon)
        error = jnp.maximum(error, jnp.square(clipped_value - batch.target))
    value_loss = 0.5 * jnp.sum(jnp.mean(error, axis=0))

    entropy = jnp.mean(policy.entropy())
    loss = policy_loss - config.entropy_coef * entropy + config.value_coef * value_loss
    return loss, {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        # Schulman's estimate with less variance than mean(-log rho), and never negative.
        "approx_kl": jnp.mean(ratio - 1.0 - log_ratio),
        "clip_fraction": jnp.mean(jnp.abs(ratio - 1.0) > epsilon),
    }
