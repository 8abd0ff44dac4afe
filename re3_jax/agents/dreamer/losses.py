"""Dreamer's returns and losses as pure functions of what the networks put out."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def lambda_returns(
    reward: Float[Array, "time batch"],
    value: Float[Array, "time batch"],
    discount: Float[Array, "time batch"],
    bootstrap: Float[Array, " batch"],
    lambda_: float,
) -> Float[Array, "time batch"]:
    """V_lambda (Hafner et al., 2020, Eq. 6), backwards in time.

    R_t = r_t + gamma_t ((1 - lambda) v_{t+1} + lambda R_{t+1}), R_T the bootstrap.
    """
    following = jnp.concatenate([value[1:], bootstrap[None]])
    targets = reward + discount * following * (1 - lambda_)

    def step(later, inputs):
        target, discount = inputs
        now = target + discount * lambda_ * later
        return now, now

    return jax.lax.scan(step, bootstrap, (targets, discount), reverse=True)[1]


def bernoulli_loss(
    logit: Float[Array, "*batch"], target: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """Cross-entropy of a probability in nats."""
    return jax.nn.softplus(logit) - target * logit


def discount_weights(discount: Float[Array, "time batch"]) -> Float[Array, "time batch"]:
    """How much each imagined step counts: the product of the discounts before it."""
    first = jnp.ones_like(discount[:1])
    return jax.lax.stop_gradient(jnp.cumprod(jnp.concatenate([first, discount[:-1]]), axis=0))
