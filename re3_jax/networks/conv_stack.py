"""Convolutions without padding, a ReLU after each: the torsos of agents and random encoders."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from re3_jax.initializers import Layer
from re3_jax.networks.conv import conv2d


class Conv(NamedTuple):
    """Size of one convolution."""

    filters: int
    size: int
    stride: int


Convs = Sequence[Conv]

NATURE = (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1))
"""DQN's convolutions for Atari (Mnih et al., 2015)."""

DATA_EFFICIENT = (Conv(32, 5, 5), Conv(64, 5, 5))
"""Data-efficient Rainbow's convolutions for Atari (Van Hasselt et al., 2019)."""

MINATAR = (Conv(16, 3, 1),)
"""The convolution for MinAtar of its authors (Young and Tian, 2019)."""


Torso = Literal["rad", "patches"]
"""Name of the convolutions that see the colour frames of DeepMind Control, see `colour`."""


def colour(torso: Torso, filters: int) -> Convs:
    """The convolutions of the torso called `torso`, with `filters` filters each.

    - `rad`: RAD's and DrQ's four 3x3 convolutions, the first of stride 2 (paper, Appendix "Details
      on DeepMind Control Suite Experiments").
    - `patches`: ours, 4x4 patches side by side: a product, and a twentieth of the multiplications
      of `rad` for images of 84x84 and 32 filters.

    Raises:
      ValueError: if there is no such torso.
    """
    if torso == "rad":
        return [Conv(filters, 3, stride) for stride in (2, 1, 1, 1)]
    if torso == "patches":
        return [Conv(filters, 4, 4)]
    raise ValueError(f"unknown torso {torso!r}: choose one of {', '.join(get_args(Torso))}")


def dreamer(depth: int) -> Convs:
    """Dreamer's convolutions for images of 64x64 (Hafner et al., 2020)."""
    return [Conv(depth * 2**number, 4, 2) for number in range(4)]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConvStack:
    """Parameters of a stack of convolutions; `strides` and `frames` are static.

    Attributes:
      layers: weights.
      strides: of each layer.
      frames: if above 1, images are stacks of so many frames f_1, ..., f_n, and the first layer's
        weights are those of f_2 - f_1, ..., f_n - f_(n-1), f_n: of what moves, and of the newest
        frame.
    """

    layers: tuple[Layer, ...]
    strides: tuple[int, ...] = field(metadata={"static": True})
    frames: int = field(default=1, metadata={"static": True})


def of_layers(convs: Convs, layers: Sequence[Layer], frames: int = 1) -> ConvStack:
    """The stack with parameters of `kernel_shapes`."""
    return ConvStack(tuple(layers), tuple(conv.stride for conv in convs), frames)


def kernel_shapes(convs: Convs, channels: int) -> list[tuple[int, ...]]:
    """Shapes of the kernels for images of `channels` channels, [rows, columns, in, out]."""
    inputs = channels, *(conv.filters for conv in convs)
    return [
        (conv.size, conv.size, size_in, conv.filters)
        for conv, size_in in zip(convs, inputs, strict=False)
    ]


def smallest_side(convs: Convs) -> int:
    """Side of the smallest square images that leave one position, in pixels."""
    side = 1
    for conv in reversed(convs):
        side = (side - 1) * conv.stride + conv.size
    return side


def flat_dim(convs: Convs, height: int, width: int) -> int:
    """Length of a row of `features`.

    Raises:
      ValueError: if the images are too small.
    """
    sides = [height, width]
    for conv in convs:
        sides = [(side - conv.size) // conv.stride + 1 for side in sides]
    if min(sides) < 1:
        smallest = smallest_side(convs)
        raise ValueError(
            f"images of {height}x{width} pixels are too small for convolutions of "
            f"{', '.join(f'{conv.size}x{conv.size}' for conv in convs)}: they must have at least "
            f"{smallest}x{smallest}"
        )
    return math.prod(sides) * convs[-1].filters


def as_float(observation: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Observations as float32: bytes, which are the pixels of an image, become 0 to 1."""
    x = observation.astype(jnp.float32)
    return x / 255 if observation.dtype == jnp.uint8 else x


def features(
    stack: ConvStack, images: Float[Array, "batch height width channels"]
) -> Float[Array, "batch flat"]:
    """Features of images, which are scaled already; the dtype stays.

    The flat axis runs over rows, columns and filters, the filter fastest: index
    `(row * columns + column) * filters + filter`. (PyTorch's has the filter slowest.)
    """
    x = images
    kernels = [layer.kernel for layer in stack.layers]
    if stack.frames > 1:
        kernels[0] = on_frames(kernels[0], stack.frames)
    for kernel, layer, stride in zip(kernels, stack.layers, stack.strides, strict=True):
        x = jax.nn.relu(conv2d(x, kernel, layer.bias, stride))
    return x.reshape(x.shape[0], -1)


def on_frames(
    kernel: Float[Array, "rows columns channels filters"], frames: int
) -> Float[Array, "rows columns channels filters"]:
    """The kernel that does to frames f_1, ..., f_n what `kernel` does to their differences.

    Its channels are those of f_2 - f_1, ..., f_n - f_(n-1), f_n. Weights are fewer than pixels, and
    subtracting them, unlike a product, rounds as float32 on every device.
    """
    rows, columns, channels, filters = kernel.shape
    by_frame = kernel.reshape(rows, columns, frames, channels // frames, filters)
    of_differences = jnp.pad(by_frame[:, :, :-1], [(0, 0), (0, 0), (1, 1), (0, 0), (0, 0)])
    mixed = -jnp.diff(of_differences, axis=2)
    return mixed.at[:, :, -1].add(by_frame[:, :, -1]).reshape(kernel.shape)
