"""SAC's three losses and the target they lead to, as pure functions of parameters and batch.

Images enter as the features of the convolutions wherever no gradient goes through these, so
that no image is convolved twice with the same weights.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from re3_jax import distributions
from re3_jax.agents.sac import networks
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.networks import Actor, Critic


def td_target(
    actor: Actor,
    critic: Critic,
    target: Critic,
    alpha: Float[Array, ""],
    next_observation: Shaped[Array, " copies_batch *observation"],
    noise: Float[Array, "copies_batch actions"],
    reward: Float[Array, " batch"],
    discount: Float[Array, " batch"],
    config: SACConfig,
) -> Float[Array, " batch"]:
    """The target y = r + gamma d (min(Q1', Q2')(o', a') - alpha log pi(a'|o')), a' ~ pi(o').

    `reward` is r_e + beta_t r_i. With several augmented copies of o' along the batch axis, copy
    by copy, their targets are averaged (DrQ, Eq. 6). The actor sees o' through the critic's
    convolutions and the target Q functions through the target's: the two passes over o'.
    """
    flat = networks.features(critic.convs, next_observation)
    action, log_probability = distributions.tanh_gaussian(
        *networks.policy(actor, flat, config), noise
    )
    target_flat = networks.features(target.convs, next_observation)
    q = jnp.minimum(*networks.q_values(target, target_flat, action))
    value = (q - alpha * log_probability).reshape(-1, reward.shape[0]).mean(axis=0)
    return jax.lax.stop_gradient(reward + config.discount * discount * value)


def critic_loss(
    critic: Critic,
    observation: Shaped[Array, " copies_batch *observation"],
    action: Float[Array, "batch actions"],
    target: Float[Array, " batch"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """MSE(Q1, y) + MSE(Q2, y), summed over the augmented copies of o (DrQ's code).

    Returns:
      The loss and the mean of Q1.
    """
    copies = observation.shape[0] // target.shape[0]
    flat = networks.features(critic.convs, observation)
    first, second = networks.q_values(critic, flat, jnp.tile(action, (copies, 1)))
    errors = jnp.square(jnp.stack([first, second]) - jnp.tile(target, copies))
    return copies * jnp.sum(jnp.mean(errors, axis=1)), jnp.mean(first)


def actor_loss(
    actor: Actor,
    critic: Critic,
    alpha: Float[Array, ""],
    flat: Float[Array, "batch flat"],
    noise: Float[Array, "batch actions"],
    config: SACConfig,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """mean(alpha log pi(a|o) - min(Q1, Q2)(o, a)), a ~ pi(o).

    `flat` is a constant here (the released code detaches the convolutions), so the actor learns
    its head and its policy alone.

    Returns:
      The loss and the mean of log pi(a|o).
    """
    action, log_probability = distributions.tanh_gaussian(
        *networks.policy(actor, flat, config), noise
    )
    q = jnp.minimum(*networks.q_values(critic, flat, action))
    return jnp.mean(alpha * log_probability - q), jnp.mean(log_probability)


def temperature_loss(
    log_alpha: Float[Array, ""], log_probability: Float[Array, ""], action_dim: int
) -> Float[Array, ""]:
    """The loss alpha (-mean log pi(a|o) - H) with the target entropy H = -|A|.

    The gradient goes through alpha = exp(log_alpha).
    """
    return jnp.exp(log_alpha) * (action_dim - log_probability)
