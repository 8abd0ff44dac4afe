"""Convolutions for pixels and for small images, and pooling.

`conv2d` and `conv_transpose2d` are the usual convolutions; on a CPU their gradients have forms of
their own (`re3_jax.cpu.conv`), the same to rounding. Programs that are to run them on every core of
a CPU are compiled with `re3_jax.cpu.compilation.jit`.

`conv2x2` is four shifted views and one matmul with the batch as the last axis: for the few
channels of a small image the copies of contiguous memory matter more than the product.
Pooling by reshape has a deterministic gradient on every backend.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from re3_jax.cpu.conv import convolve, convolve_transposed


def conv2x2(
    x: Float[Array, "channels height width batch"],
    kernel: Float[Array, "2 2 channels features"],
    bias: Float[Array, " features"],
) -> Float[Array, "features height-1 width-1 batch"]:
    """Valid convolution with a 2x2 kernel and stride 1 (cross-correlation, as PyTorch's)."""
    height, width, batch = x.shape[1] - 1, x.shape[2] - 1, x.shape[3]
    features = kernel.shape[-1]
    patches = jnp.concatenate(
        [x[:, i : i + height, j : j + width] for i in range(2) for j in range(2)]
    )
    out = kernel.reshape(-1, features).T @ patches.reshape(patches.shape[0], -1)
    return out.reshape(features, height, width, batch) + bias[:, None, None, None]


def max_pool2x2(
    x: Float[Array, "channels height width batch"],
) -> Float[Array, "channels height/2 width/2 batch"]:
    """Maximum over non-overlapping 2x2 windows; height and width must be even."""
    channels, height, width, batch = x.shape
    return x.reshape(channels, height // 2, 2, width // 2, 2, batch).max(axis=(2, 4))


def conv2d(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns channels features"],
    bias: Float[Array, " features"],
    stride: int = 1,
) -> Float[Array, "batch out_height out_width features"]:
    """Valid convolution (cross-correlation, as PyTorch's) with one stride for both axes.

    Images and kernel have one dtype, which the result has, too; the bias may have a wider one.
    Has first derivatives in reverse mode. A gradient that nobody asks for, such as that of
    observations, costs nothing.
    """
    return (convolve(x, kernel, stride) + bias).astype(x.dtype)


def conv_transpose2d(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns features channels"],
    bias: Float[Array, " features"],
    stride: int,
) -> Float[Array, "batch out_height out_width features"]:
    """Transposed convolution without padding, as PyTorch's; the kernel's axes are Keras's.

    Images become (size - 1) * stride + rows high. It is what `conv2d` does backwards, and its
    gradients are what `conv2d` does forwards. Dtypes and derivatives are as those of `conv2d`.
    """
    return (convolve_transposed(x, kernel, stride) + bias).astype(x.dtype)
