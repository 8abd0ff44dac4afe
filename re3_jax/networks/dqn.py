"""The convolution stacks of agents that play Atari or MinAtar, and of Atari's random encoder."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from re3_jax.initializers import Layer
from re3_jax.networks.conv import conv2d


class Conv(NamedTuple):
    """Size of one convolution without padding, followed by a ReLU."""

    filters: int
    size: int
    stride: int


CANONICAL = (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1))
"""Mnih et al. (2015)."""

DATA_EFFICIENT = (Conv(32, 5, 5), Conv(64, 5, 5))
"""Van Hasselt et al. (2019)."""

MINATAR = (Conv(16, 3, 1),)
"""Young and Tian (2019)."""


def kernel_shapes(
    convs: Sequence[Conv], height: int, width: int, channels: int
) -> tuple[list[tuple[int, ...]], int]:
    """Shapes of the kernels, and the length of a row of `features`.

    Raises:
      ValueError: if the images are too small.
    """
    shapes: list[tuple[int, ...]] = []
    rows, columns = height, width
    for conv in convs:
        shapes.append((conv.size, conv.size, channels, conv.filters))
        rows, columns = ((size - conv.size) // conv.stride + 1 for size in (rows, columns))
        channels = conv.filters
    if min(rows, columns) < 1:
        sizes = ", ".join(f"{conv.size}x{conv.size}" for conv in convs)
        raise ValueError(f"images of {height}x{width} are too small for convolutions of {sizes}")
    return shapes, rows * columns * channels


def features(
    layers: Sequence[Layer],
    convs: Sequence[Conv],
    observation: Shaped[Array, "batch height width channels"],
) -> Float[Array, "batch flat"]:
    """Features of a batch of images; on the flat axis the filter varies fastest.

    uint8 images are scaled from 0..255 to [0, 1]; other dtypes are not scaled.
    """
    x = observation.astype(jnp.float32)
    if observation.dtype == jnp.uint8:
        x = x / 255
    for layer, conv in zip(layers, convs, strict=True):
        x = jax.nn.relu(conv2d(x, layer.kernel, layer.bias, conv.stride))
    return x.reshape(x.shape[0], -1)
