"""A2C's actor and critic over one shared trunk (rl-starter-files' `ACModel`)."""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import initializers
from re3_jax.cpu import flat_random
from re3_jax.networks import minigrid


def unit_norm_columns(
    key: PRNGKeyArray, shape: tuple[int, int], dtype: DTypeLike = jnp.float32
) -> Float[Array, "inputs outputs"]:
    """Standard normal weights, those of each output unit scaled to Euclidean norm 1."""
    kernel = flat_random.normal(key, shape, dtype)
    return kernel / jnp.linalg.norm(kernel, axis=0, keepdims=True)


class MiniGridTrunk(nn.Module):
    """The paper's convolution stack, with PyTorch's default initialisation."""

    @nn.compact
    def __call__(self, observation: Shaped[Array, "batch 7 7 3"]) -> Float[Array, "batch 64"]:
        """Features of a batch of views."""
        layers = []
        for number, shape in enumerate(minigrid.KERNEL_SHAPES):
            kernel = self.param(f"kernel_{number}", initializers.torch_default, shape)
            bias = self.param(f"bias_{number}", initializers.torch_default_bias, shape)
            layers.append(initializers.Layer(kernel, bias))
        return minigrid.trunk(tuple(layers), observation)


class VectorTrunk(nn.Module):
    """Two tanh layers for flat observations, which torch-ac does not define."""

    hidden_dim: int

    @nn.compact
    def __call__(self, observation: Float[Array, "batch ..."]) -> Float[Array, "batch hidden"]:
        """Features of a batch of observations of any shape."""
        x = observation.astype(jnp.float32).reshape(observation.shape[0], -1)
        for _ in range(2):
            dense = nn.Dense(self.hidden_dim, kernel_init=nn.initializers.orthogonal(2**0.5))
            x = jnp.tanh(dense(x))
        return x


class Head(nn.Module):
    """Linear, tanh, linear."""

    hidden_dim: int
    output_dim: int

    @nn.compact
    def __call__(self, features: Float[Array, "batch features"]) -> Float[Array, "batch outputs"]:
        """Outputs of a batch of features."""
        x = jnp.tanh(nn.Dense(self.hidden_dim, kernel_init=unit_norm_columns)(features))
        return nn.Dense(self.output_dim, kernel_init=unit_norm_columns)(x)


class ActorCritic(nn.Module):
    """Policy logits and state value.

    Attributes:
      make_trunk: builds the shared trunk.
      num_actions: size of the action set.
      hidden_dim: width of each head's hidden layer.
    """

    make_trunk: Callable[[], nn.Module]
    num_actions: int
    hidden_dim: int

    def setup(self) -> None:
        """Makes the parts under the names that their parameters have."""
        self.trunk = self.make_trunk()
        self.actor = Head(self.hidden_dim, self.num_actions)
        self.critic = Head(self.hidden_dim, 1)

    def __call__(
        self, observation: Shaped[Array, " batch *observation"]
    ) -> tuple[Float[Array, "batch actions"], Float[Array, " batch"]]:
        """Both heads."""
        features = self.trunk(observation)
        return self.actor(features), self.critic(features)[:, 0]

    def logits(
        self, observation: Shaped[Array, " batch *observation"]
    ) -> Float[Array, "batch actions"]:
        """The actor alone: acting needs no value."""
        return self.actor(self.trunk(observation))

    def value(self, observation: Shaped[Array, " batch *observation"]) -> Float[Array, " batch"]:
        """The critic alone."""
        return self.critic(self.trunk(observation))[:, 0]
