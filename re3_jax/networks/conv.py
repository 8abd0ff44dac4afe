"""Convolutions for pixels and for small images, and pooling.

`conv2d` and `conv_transpose2d` are the usual convolutions; on a CPU `re3_jax.cpu.conv` computes
their gradients, equal up to rounding. To run them on every core of a CPU, compile the program with
`re3_jax.compilation.jit`.

`conv2x2` is four shifted views and one matmul with the batch as the last axis: for the few
channels of a small image, copies of contiguous memory matter more than the product.
`max_pool2x2` has a deterministic gradient on every backend, which reads each window once.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from re3_jax.cpu.conv import convolve, convolve_transposed


def conv2x2(
    x: Float[Array, "channels height width batch"], kernel: Float[Array, "2 2 channels features"]
) -> Float[Array, "features height-1 width-1 batch"]:
    """Valid convolution, 2x2, stride 1, without a bias (cross-correlation, as PyTorch's)."""
    height, width, batch = x.shape[1] - 1, x.shape[2] - 1, x.shape[3]
    features = kernel.shape[-1]
    patches = jnp.concatenate(
        [x[:, i : i + height, j : j + width] for i in range(2) for j in range(2)]
    )
    out = kernel.reshape(-1, features).T @ patches.reshape(patches.shape[0], -1)
    return out.reshape(features, height, width, batch)


# Outside `jit`, a function with rules of its own would be compiled by each call.
@partial(jax.jit, inline=True)
def max_pool2x2(
    x: Float[Array, "channels height width batch"],
) -> Float[Array, "channels height/2 width/2 batch"]:
    """Maximum over non-overlapping 2x2 windows; height and width must be even.

    Supports first derivatives in reverse mode. Of equal maxima the first of a window, row by row,
    takes its gradient, as in PyTorch.
    """
    return _max_pool(x)


@jax.custom_vjp
def _max_pool(x):
    return _windows(x).max(axis=(2, 4))


def _windows(
    x: Float[Array, "channels height width batch"],
) -> Float[Array, "channels height/2 2 width/2 2 batch"]:
    channels, height, width, batch = x.shape
    return x.reshape(channels, height // 2, 2, width // 2, 2, batch)


def _pool_backward(residuals, d_out):
    x, out = residuals
    windows, is_left = _windows(x), jnp.ones(out.shape, bool)
    rows = []
    for i in range(2):
        columns = []
        for j in range(2):
            is_first = is_left & (windows[:, :, i, :, j] == out)
            columns.append(jnp.where(is_first, d_out, 0))
            is_left &= ~is_first
        rows.append(jnp.stack(columns, axis=3))
    return (jnp.stack(rows, axis=2).reshape(x.shape),)


def _pool_forward(x):
    out = _max_pool(x)
    return out, (x, out)


_max_pool.defvjp(_pool_forward, _pool_backward)


def conv2d(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns channels features"],
    bias: Float[Array, " features"],
    stride: int = 1,
) -> Float[Array, "batch out_height out_width features"]:
    """Valid convolution (cross-correlation, as PyTorch's) with one stride for both axes.

    Images, kernel and result have the same dtype; the bias may have a wider one.
    Supports first derivatives in reverse mode. Unused gradients, such as that of observations, are
    eliminated.
    """
    return (convolve(x, kernel, stride) + bias).astype(x.dtype)


def conv_transpose2d(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns features channels"],
    bias: Float[Array, " features"],
    stride: int,
) -> Float[Array, "batch out_height out_width features"]:
    """Transposed convolution without padding, as PyTorch's; the kernel's axes are Keras's.

    Images become (size - 1) * stride + rows high. The forward pass is the input gradient of
    `conv2d`, and the gradients use the forward pass of `conv2d`. Dtypes and derivatives are those
    of `conv2d`.
    """
    return (convolve_transposed(x, kernel, stride) + bias).astype(x.dtype)
