"""A stride as channels: what a convolution with a stride sees, for one without.

Reason: with jaxlib 0.10.2 a convolution over few channels is slower on a CPU with a stride than
without one. Dreamer's encoder of 8 filters takes 18 ms for 128 images with the stride of its first
layer and 12 so, PyTorch's 9; of 32 filters there is hardly a difference
(`benchmarks/results/dreamer_images.json`, a processor without AVX-512). More channels gained less,
and some sizes of them lost (not measured by a command of this repository).

Remove together with `re3_jax.cpu.conv`.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

NARROW = 8
"""Least number of channels with which a stride costs little."""


def is_narrow(kernel_shape: Sequence[int], stride: int) -> bool:
    """Whether a convolution with a kernel [rows, columns, channels, features] is faster so.

    A kernel whose size the stride does not divide would have to be padded with zeros.
    """
    rows, columns, channels, _ = kernel_shape
    return stride > 1 and channels < NARROW and rows % stride == columns % stride == 0


def convolve_narrow(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns channels features"],
    stride: int,
) -> Float[Array, "batch out_height out_width features"]:
    """The convolution with a kernel whose size is a multiple of the stride."""
    rows, columns, channels, features = kernel.shape
    high, wide = rows // stride, columns // stride
    seen = (x.shape[1] - rows) // stride + high, (x.shape[2] - columns) // stride + wide
    blocks = kernel.reshape(high, stride, wide, stride, channels, features).swapaxes(1, 2)
    return lax.conv_general_dilated(
        space_to_depth(x, stride)[:, : seen[0], : seen[1]],
        blocks.reshape(high, wide, -1, features),
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def space_to_depth(
    x: Float[Array, "batch height width channels"], stride: int
) -> Float[Array, "batch high wide depth"]:
    """Merges each block of `stride` x `stride` pixels into one pixel; zeros fill the last."""
    if stride == 1:
        return x
    batch, height, width, channels = x.shape
    high, wide = -(-height // stride), -(-width // stride)
    x = jnp.pad(x, ((0, 0), (0, high * stride - height), (0, wide * stride - width), (0, 0)))
    x = x.reshape(batch, high, stride, wide, stride * channels).swapaxes(2, 3)
    return x.reshape(batch, high, wide, stride * stride * channels)
