"""Distributions of actions: categorical, Gaussian, and Gaussian squashed by tanh.

Squashed actions are in (-1, 1) and have a density. With u ~ N(mean, std^2) and a = tanh(u)
elementwise, log p(a) = log N(u; mean, std) - sum log(1 - tanh(u)^2).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.cpu import flat_random


def batched_index(
    values: Float[Array, "*batch actions"], action: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """The values of one action of each batch element.

    A sum over a mask, because the gradient of a gather is a scatter, which a GPU adds in any order.
    """
    is_chosen = jax.nn.one_hot(action, values.shape[-1], dtype=bool)
    return jnp.sum(jnp.where(is_chosen, values, 0.0), axis=-1)


class Categorical(NamedTuple):
    """Actions 0, ..., n - 1 with unnormalised log-probabilities."""

    logits: Float[Array, "*batch actions"]

    def sample(self, key: PRNGKeyArray) -> Int[Array, "*batch"]:
        """A random action, int32."""
        return flat_random.categorical(key, self.logits)

    def mode(self) -> Int[Array, "*batch"]:
        """The most probable action, int32."""
        return jnp.argmax(self.logits, axis=-1).astype(jnp.int32)

    def log_probability(self, action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """The log-probability of an action."""
        return batched_index(jax.nn.log_softmax(self.logits), action)

    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy in nats."""
        log_probability = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_probability) * log_probability, axis=-1)


class Gaussian(NamedTuple):
    """Real-valued actions; the deviation does not depend on the state."""

    mean: Float[Array, "*batch dims"]
    log_std: Float[Array, " dims"]

    def sample(self, key: PRNGKeyArray) -> Float[Array, "*batch dims"]:
        """A random action."""
        noise = flat_random.normal(key, self.mean.shape)
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> Float[Array, "*batch dims"]:
        """The most probable action."""
        return self.mean

    def log_probability(self, action: Float[Array, "*batch dims"]) -> Float[Array, "*batch"]:
        """The log-density of an action, summed over dimensions."""
        noise = (action - self.mean) * jnp.exp(-self.log_std)
        density = -0.5 * jnp.square(noise) - self.log_std - 0.5 * math.log(2.0 * math.pi)
        return jnp.sum(density, axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """Differential entropy in nats; equal for every state."""
        per_dimension = self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)
        return jnp.broadcast_to(jnp.sum(per_dimension), self.mean.shape[:-1])


Policy = Categorical | Gaussian
"""What an actor says of one observation, or of a batch."""


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
