"""Convolutions whose patches lie side by side, as one product on a CPU.

Reason: where the stride is the size of the kernel, each pixel belongs to one patch, and the
convolution is a product of patches and kernel. jaxlib 0.10.2 has no such form on a CPU: it copies
the patches within each convolution, so that passes over the same images copy them again.

Remove together with `re3_jax.cpu.conv`.
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from re3_jax.cpu.frames import frames


def is_side_by_side(kernel_size: Sequence[int], stride: int) -> bool:
    """Whether a kernel of that size (rows, columns) sees each pixel once."""
    return tuple(kernel_size) == (stride, stride)


def convolve_side_by_side(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "stride stride channels features"],
) -> Float[Array, "batch out_height out_width features"]:
    """The convolution with a stride of the kernel's size, in the dtype of `x`."""
    stride, features = kernel.shape[0], kernel.shape[-1]
    batch, rows, columns = x.shape[0], x.shape[1] // stride, x.shape[2] // stride
    # Sum many products in float32 even if the arrays are narrower.
    wide = jnp.promote_types(x.dtype, jnp.float32)
    products = [
        jnp.matmul(
            _patches(frame, stride),
            weights.swapaxes(2, 3).reshape(-1, features),
            preferred_element_type=wide,
        )
        for frame, weights in zip(frames(x), frames(kernel.swapaxes(2, 3)), strict=True)
    ]
    out = functools.reduce(jnp.add, products)
    return out.astype(x.dtype).reshape(batch, rows, columns, features)


def kernel_gradient_side_by_side(
    x: Float[Array, "batch height width channels"],
    d_out: Float[Array, "batch out_height out_width features"],
    stride: int,
) -> Float[Array, "stride stride channels features"]:
    """The gradient with respect to the kernel, in the dtype of `d_out`."""
    features = d_out.shape[-1]
    wide = jnp.promote_types(x.dtype, jnp.float32)
    of_frames = [
        jnp.matmul(
            _patches(frame, stride).T, d_out.reshape(-1, features), preferred_element_type=wide
        ).reshape(stride, stride, -1, features)
        for frame in frames(x)
    ]
    return jnp.concatenate(of_frames, axis=2).astype(d_out.dtype)


def _patches(x, stride: int):
    """The patches [batch * out_height * out_width, stride * stride * channels]."""
    batch, height, width, channels = x.shape
    rows, columns = height // stride, width // stride
    x = x[:, : rows * stride, : columns * stride]
    x = x.reshape(batch, rows, stride, columns, stride * channels)
    return x.swapaxes(2, 3).reshape(batch * rows * columns, stride * stride * channels)
