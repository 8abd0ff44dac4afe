"""The two distributions of actions: categorical, and Gaussian with independent dimensions."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.cpu import flat_random
from re3_jax.losses import batched_index, categorical_entropy


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
        return categorical_entropy(self.logits)


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
