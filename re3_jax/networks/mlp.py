"""Fully-connected layers with a ReLU after each except the last."""

import jax
from jaxtyping import Array, Float

from re3_jax.initializers import Layer

MLPParams = tuple[Layer, ...]


def kernel_shapes(inputs: int, hidden: int, outputs: int) -> tuple[tuple[int, int], ...]:
    """Shapes of the three kernels of two hidden layers and an output."""
    return (inputs, hidden), (hidden, hidden), (hidden, outputs)


def mlp(params: MLPParams, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """The last layer's output, before any non-linearity."""
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer.kernel + layer.bias)
    return x @ params[-1].kernel + params[-1].bias
