"""Layers that predict actions, and actions as the numbers that a network is given."""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import initializers
from re3_jax.envs.base import Box, Discrete
from re3_jax.initializers import Scheme
from re3_jax.intrinsic import whole_numbers
from re3_jax.networks import mlp
from re3_jax.networks.mlp import MLP


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ActionHead:
    """Two hidden layers and an output for a task's actions; `is_discrete` is static.

    Attributes:
      layers: weights.
      is_discrete: whether the task's actions are whole numbers: outputs are then their logits,
        otherwise the action itself.
    """

    layers: MLP
    is_discrete: bool = field(metadata={"static": True})

    @property
    def num_outputs(self) -> int:
        """Numbers for an action: one for each choice, or for each coordinate."""
        return self.layers[-1].bias.shape[0]


def init(
    key: PRNGKeyArray, inputs: int, hidden_dim: int, space: Discrete | Box, scheme: Scheme
) -> ActionHead:
    """Draws the layers for the actions of a task."""
    shapes = mlp.kernel_shapes(inputs, hidden_dim, hidden_dim, space.num_outputs)
    layers = initializers.layers(scheme, key, shapes)
    return ActionHead(tuple(layers), isinstance(space, Discrete))


def predict(head: ActionHead, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """Logits of the choices, or the action."""
    return mlp.mlp(head.layers, x)


def as_numbers(
    head: ActionHead, action: Shaped[Array, " batch *action"]
) -> Float[Array, "batch outputs"]:
    """Actions as a network is given them: one-hot, or each flattened.

    A whole number that is no action of the task becomes NaN: one-hot, it would be all zeros, which
    a loss rewards.

    Raises:
      ValueError: they are not of the task's kind; one sentence says of which they must be.
    """
    kind = jnp.integer if head.is_discrete else jnp.floating
    shape, outputs = action.shape, head.num_outputs
    fits = len(shape) == 1 if head.is_discrete else math.prod(shape[1:]) == outputs
    if not fits or not jnp.issubdtype(action.dtype, kind):
        wanted = (
            f"whole numbers [batch] below {outputs}"
            if head.is_discrete
            else f"real numbers [batch, {outputs}]"
        )
        raise ValueError(
            f"actions are {action.dtype}{list(shape)}, one row for each step, but those of the "
            f"task are {'discrete' if head.is_discrete else 'continuous'}: give {wanted}"
        )
    if not head.is_discrete:
        return action.reshape(shape[0], -1)
    choice = whole_numbers.below(outputs, action)
    one_hot = jax.nn.one_hot(choice, outputs, dtype=jnp.float32)
    return jnp.where(choice[:, None] < outputs, one_hot, jnp.nan)
