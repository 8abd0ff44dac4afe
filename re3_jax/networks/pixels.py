"""The convolution stack for pixels, shared by SAC's encoder and the random encoder.

Four 3x3 convolutions without padding, strides 2, 1, 1, 1, each followed by a ReLU, on images
scaled to [0, 1] (RAD's and DrQ's encoder; paper, Appendix "Details on DeepMind Control Suite
Experiments"). Its users add their own linear layer, LayerNorm and tanh.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from re3_jax.networks.conv import conv2d

STRIDES = (2, 1, 1, 1)


class ConvLayer(NamedTuple):
    """Parameters of one 3x3 convolution."""

    kernel: Float[Array, "3 3 channels features"]
    bias: Float[Array, " features"]


ConvParams = tuple[ConvLayer, ConvLayer, ConvLayer, ConvLayer]


def kernel_shapes(channels: int, num_filters: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of the four kernels, for images of `channels` channels."""
    first = (3, 3, channels, num_filters)
    other = (3, 3, num_filters, num_filters)
    return first, other, other, other


def flat_dim(height: int, width: int, num_filters: int) -> int:
    """Length of a row of `features`.

    Raises:
      ValueError: if the images are too small for four convolutions.
    """
    rows, columns = height, width
    for stride in STRIDES:
        rows, columns = ((size - 3) // stride + 1 for size in (rows, columns))
    if min(rows, columns) < 1:
        raise ValueError(
            f"images of {height}x{width} pixels are too small for four 3x3 convolutions: "
            "they must have at least 15x15"
        )
    return rows * columns * num_filters


def features(
    params: ConvParams, observation: Num[Array, "batch height width channels"]
) -> Float[Array, "batch flat"]:
    """Features of a batch of images with values 0..255, float32.

    The flat axis runs over rows, columns and filters, the filter fastest: index
    `(row * columns + column) * num_filters + filter`. (PyTorch's has the filter slowest.)
    """
    x = observation.astype(jnp.float32) / 255
    for layer, stride in zip(params, STRIDES, strict=True):
        x = jax.nn.relu(conv2d(x, layer.kernel, layer.bias, stride))
    return x.reshape(x.shape[0], -1)
