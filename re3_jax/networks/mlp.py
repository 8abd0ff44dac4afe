"""Linear layers, several after each other, and layer normalisation."""

from collections.abc import Callable
from itertools import pairwise

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from re3_jax.initializers import Layer

MLP = tuple[Layer, ...]


def kernel_shapes(*widths: int) -> list[tuple[int, int]]:
    """Shapes of the kernels between inputs, hidden layers and outputs of these widths."""
    return list(pairwise(widths))


def linear(layer: Layer, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
    """Computes x W + b, in the dtype of `x`."""
    return (x @ layer.kernel + layer.bias).astype(x.dtype)


def mlp(
    layers: MLP,
    x: Float[Array, "*batch inputs"],
    activation: Callable[[jax.Array], jax.Array] = jax.nn.relu,
) -> Float[Array, "*batch outputs"]:
    """Linear layers with an activation after each except the last."""
    for layer in layers[:-1]:
        x = activation(linear(layer, x))
    return linear(layers[-1], x)


def layer_norm(
    x: Float[Array, "*batch features"], epsilon: float
) -> Float[Array, "*batch features"]:
    """(x - mean) / sqrt(variance + epsilon) over the last axis (Ba et al., 2016), not scaled."""
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + epsilon)
