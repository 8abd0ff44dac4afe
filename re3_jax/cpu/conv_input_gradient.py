"""The gradient of a convolution's images, as a CPU computes it fast.

Reason: XLA's own dilates the gradient by the stride, which jaxlib 0.10.2 runs slowly on a CPU. One
convolution without dilation, for all phases of the stride, is faster. Where an output has few
positions it is faster to compute the gradients of all patches in one product and to add them up.

Can go with `re3_jax.cpu.conv`.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from re3_jax.cpu.parts import part_size

SMALL_IMAGE = 36
"""Positions of an output up to which the gradients of patches are faster."""

BLOCK_BYTES = 2**21
"""Bytes of the patches of one block of images: about the second-level cache of one core."""


def input_gradient(
    kernel: Float[Array, "rows columns channels features"],
    d_out: Float[Array, "batch out_height out_width features"],
    size: tuple[int, int],
    stride: int,
) -> Float[Array, "batch height width channels"]:
    """Gradient of images of `size` (height, width), of the dtype of `d_out`."""
    positions = d_out.shape[1] * d_out.shape[2]
    of_images = _by_patches if positions <= SMALL_IMAGE else _by_phases
    return of_images(kernel, d_out, size, stride)


def _by_patches(kernel, d_out, size: tuple[int, int], stride: int):
    """The gradient of all patches in one product, added up where they overlap."""
    rows, columns, channels, features = kernel.shape
    batch, height, width, _ = d_out.shape
    bytes_of_one = 4 * height * width * rows * columns * channels
    images = part_size(batch, max(1, BLOCK_BYTES // bytes_of_one))
    flat = kernel.reshape(-1, features).T
    block_like = jax.ShapeDtypeStruct((images, *size, channels), d_out.dtype)
    add_up = jax.linear_transpose(lambda x: _patches(x, (rows, columns), stride), block_like)
    blocks = d_out.reshape(-1, images * height * width, features)
    # Sums of many products are float32 where the arrays are narrower.
    wide = jnp.promote_types(d_out.dtype, jnp.float32)

    def of_block(block):
        patches = jnp.matmul(block, flat, preferred_element_type=wide)
        return add_up(patches.astype(d_out.dtype))[0]

    return lax.map(of_block, blocks).reshape(batch, *size, channels)


def _patches(x, kernel_size: tuple[int, int], stride: int):
    """What the kernel meets: [batch * out_height * out_width, rows * columns * channels]."""
    (rows, columns), channels = kernel_size, x.shape[-1]
    height, width = ((n - k) // stride + 1 for n, k in zip(x.shape[1:3], kernel_size, strict=True))

    def windows(x, axis: int, count: int, taps: int):
        # First of every step of the stride, then of every whole step within the kernel.
        steps = -(-taps // stride)
        missing = max(0, (count + steps - 1) * stride - x.shape[axis])
        x = jnp.pad(x, [(0, missing) if i == axis else (0, 0) for i in range(x.ndim)])
        x = lax.slice_in_dim(x, 0, (count + steps - 1) * stride, axis=axis)
        x = x.reshape(*x.shape[:axis], -1, stride, *x.shape[axis + 1 :])
        shifted = [lax.slice_in_dim(x, step, step + count, axis=axis) for step in range(steps)]
        return lax.slice_in_dim(jnp.concatenate(shifted, axis + 1), 0, taps, axis=axis + 1)

    x = windows(windows(x, 2, width, columns), 1, height, rows)
    return x.swapaxes(2, 3).reshape(-1, rows * columns * channels)


def _by_phases(kernel, d_out, size: tuple[int, int], stride: int):
    """The convolution of the padded gradient with the kernel turned round, phase by phase."""
    turned, *margins = _phases(kernel.swapaxes(2, 3), stride)
    # Pixels that the kernel never reaches come from a wider margin: zeros put on afterwards make
    # what follows slow, because XLA then asks of every pixel whether it is one of them.
    reached = [count + margin for count, margin in zip(d_out.shape[1:3], margins, strict=True)]
    missing = [max(0, -(-n // stride) - there) for n, there in zip(size, reached, strict=True)]
    padding = [(margin, margin + more) for margin, more in zip(margins, missing, strict=True)]
    d_x = lax.conv_general_dilated(
        d_out, turned, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return _depth_to_space(d_x, stride)[:, : size[0], : size[1]]


def _phases(kernel, stride: int):
    """A transposed convolution's kernel as one without a stride, for all phases of the output.

    Output position stride * q + r gets input q - t times kernel row stride * t + r: a convolution
    over t, turned round, of whose outputs each r is a channel of its own.

    Returns:
      the kernel [high, wide, channels, stride * stride * features], and by how many rows and
      columns the input is to be padded on each side.
    """
    rows, columns, channels, features = kernel.shape
    high, wide = -(-rows // stride), -(-columns // stride)
    kernel = jnp.pad(
        kernel, ((0, high * stride - rows), (0, wide * stride - columns), (0, 0), (0, 0))
    )
    kernel = kernel.reshape(high, stride, wide, stride, channels, features)
    kernel = jnp.flip(kernel, (0, 2)).transpose(0, 2, 4, 1, 3, 5)
    return kernel.reshape(high, wide, channels, -1), high - 1, wide - 1


def _depth_to_space(x, stride: int):
    """Pixels of many channels as blocks of `stride` x `stride` pixels."""
    if stride == 1:
        return x
    batch, height, width, depth = x.shape
    channels = depth // stride**2
    x = x.reshape(batch, height, width, stride, stride, channels).swapaxes(2, 3)
    return x.reshape(batch, height * stride, width * stride, channels)
