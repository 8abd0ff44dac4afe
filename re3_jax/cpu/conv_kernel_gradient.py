"""The gradient of a convolution with respect to its kernel, fast on a CPU.

Reason: XLA's own is a convolution with a dilated kernel and with batch and channels exchanged, in
an order of axes that jaxlib 0.10.2 transposes only outside of loops. A CPU runs it slowly, and
within a loop many times slower still (https://github.com/jax-ml/jax/issues/12868). Here the axes
are transposed first, and the stride becomes channels, so that no kernel is dilated.

Remove together with `re3_jax.cpu.conv`.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from re3_jax.cpu.space_to_depth import space_to_depth

PACKET = 16
"""Numbers that one core multiplies at once; copying an incomplete packet is slower."""

PRODUCT_POSITIONS = 3_000
"""Least number of positions to sum within one product."""


def kernel_gradient(
    x: Float[Array, "batch height width channels"],
    d_out: Float[Array, "batch out_height out_width features"],
    kernel_size: tuple[int, int],
    stride: int,
) -> Float[Array, "rows columns channels features"]:
    """Gradient with respect to a kernel of `kernel_size` (rows, columns), in the dtype of `d_out`.

    Convolves images with gradients; the images of a block act as channels. A convolution sums over
    channels and positions anyway, and it makes its copies where the product needs them. Sums are
    float32 even if the arrays are narrower.
    """
    rows, columns = kernel_size
    batch, height, width, features = d_out.shape
    channels = x.shape[-1]
    high, wide = -(-rows // stride), -(-columns // stride)
    images = min(batch, PACKET * -(-PRODUCT_POSITIONS // (PACKET * height * width)))
    dtype = jnp.promote_types(d_out.dtype, jnp.float32)

    def of_block(x, d_out):
        missing = [(0, -len(x) % PACKET), (0, 0), (0, 0), (0, 0)]
        x, d_out = (jnp.pad(y.astype(dtype), missing) for y in (x, d_out))
        x = space_to_depth(x, stride)[:, : height + high - 1, : width + wide - 1]
        return lax.conv_general_dilated(
            x.transpose(3, 1, 2, 0),
            d_out.transpose(1, 2, 0, 3),
            (1, 1),
            "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    def add(block, total):
        first = block * images
        return total + of_block(*(lax.dynamic_slice_in_dim(y, first, images) for y in (x, d_out)))

    # Start from a block, because zeros would need the varying type inside shard_map. Accumulate in
    # the loop, because XLA's sum over a stack of the blocks' results is slow.
    begun = batch % images or images
    d_kernel = of_block(x[-begun:], d_out[-begun:])
    d_kernel = lax.fori_loop(0, (batch - begun) // images, add, d_kernel)
    d_kernel = d_kernel.reshape(stride, stride, channels, high, wide, features)
    d_kernel = d_kernel.transpose(3, 0, 4, 1, 2, 5)
    d_kernel = d_kernel.reshape(high * stride, wide * stride, channels, features)
    return d_kernel[:rows, :columns].astype(d_out.dtype)
