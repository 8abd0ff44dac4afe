"""The tanh-squashed Gaussian: actions in (-1, 1) with a density.

With u ~ N(mean, std^2) and a = tanh(u) elementwise,
log p(a) = log N(u; mean, std) - sum log(1 - tanh(u)^2).
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def squash_log_std(
    raw: Float[Array, "*batch actions"], low: float, high: float
) -> Float[Array, "*batch actions"]:
    """Maps a network's output into [low, high]: low + (high - low) (tanh(raw) + 1) / 2."""
    return low + 0.5 * (high - low) * (jnp.tanh(raw) + 1.0)


def tanh_log_det(u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(d tanh(u) / du) = 2 (log 2 - u - softplus(-2u)).

    Equals log(1 - tanh(u)^2), which is log(0) in float32 from |u| = 9 on.
    """
    return 2.0 * (math.log(2.0) - u - jax.nn.softplus(-2.0 * u))


def tanh_gaussian(
    mean: Float[Array, "*batch actions"],
    log_std: Float[Array, "*batch actions"],
    noise: Float[Array, "*batch actions"],
) -> tuple[Float[Array, "*batch actions"], Float[Array, "*batch"]]:
    """The action tanh(mean + std * noise), for standard normal `noise`, and its log density.

    Both are differentiable in `mean` and `log_std` (reparametrised sample).
    """
    u = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * jnp.square(noise) - log_std - 0.5 * math.log(2.0 * math.pi)
    return jnp.tanh(u), jnp.sum(log_normal - tanh_log_det(u), axis=-1)
