"""The gradient of a convolution with respect to its images, fast on a CPU.

Reason: XLA's own dilates the gradient by the stride, which jaxlib 0.10.2 runs slowly on a CPU. One
convolution without dilation, for all phases of the stride, is faster. For outputs with few
positions, it is faster to compute the gradients of all patches in one product and to add them up.

Remove together with `re3_jax.cpu.conv`.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from re3_jax import checks

SMALL_IMAGE = 36
"""Largest number of output positions for which the gradients of patches are faster."""

BLOCK_BYTES = 2**21
"""Size of the patches of one block of images: about the second-level cache of one core."""


def input_gradient(
    kernel: Float[Array, "rows columns channels features"],
    d_out: Float[Array, "batch out_height out_width features"],
    size: tuple[int, int],
    stride: int,
) -> Float[Array, "batch height width channels"]:
    """Gradient with respect to images of `size` (height, width), in the dtype of `d_out`."""
    positions = d_out.shape[1] * d_out.shape[2]
    of_images = _by_patches if positions <= SMALL_IMAGE else _by_phases
    return of_images(kernel, d_out, size, stride)


def input_gradient_in_groups(
    kernel: Float[Array, "rows columns channels features"],
    d_out: Float[Array, "batch out_height out_width features"],
    size: tuple[int, int],
    stride: int,
) -> Float[Array, "batch height width channels"]:
    """`input_gradient`, for a GPU under `vmap` over seeds.

    There the convolution has groups, and XLA passes a dilated one with groups to no library of the
    GPU: it writes the zeros between the pixels into memory, and multiplies by them.
    """
    if d_out.shape[1:3] != (1, 1):
        return _by_phases(kernel, d_out, size, stride)
    d_x = jnp.einsum("bhwf,ijcf->bijc", d_out, kernel)
    height, width = size
    return jnp.pad(d_x, ((0, 0), (0, height - d_x.shape[1]), (0, width - d_x.shape[2]), (0, 0)))


def _by_patches(kernel, d_out, size: tuple[int, int], stride: int):
    """Computes the gradients of all patches in one product and adds up their overlaps."""
    rows, columns, channels, features = kernel.shape
    batch, height, width, _ = d_out.shape
    bytes_of_one = 4 * height * width * rows * columns * channels
    images = checks.largest_divisor(batch, max(1, BLOCK_BYTES // bytes_of_one))
    flat = kernel.reshape(-1, features).T
    block_like = jax.ShapeDtypeStruct((images, *size, channels), d_out.dtype)
    add_up = jax.linear_transpose(lambda x: _patches(x, (rows, columns), stride), block_like)
    blocks = d_out.reshape(-1, images * height * width, features)
    # Sum many products in float32 even if the arrays are narrower.
    wide = jnp.promote_types(d_out.dtype, jnp.float32)

    def of_block(block):
        patches = jnp.matmul(block, flat, preferred_element_type=wide)
        return add_up(patches.astype(d_out.dtype))[0]

    return lax.map(of_block, blocks).reshape(batch, *size, channels)


def _patches(x, kernel_size: tuple[int, int], stride: int):
    """The patches under the kernel: [batch * out_height * out_width, rows * columns * channels]."""
    (rows, columns), channels = kernel_size, x.shape[-1]
    height, width = ((n - k) // stride + 1 for n, k in zip(x.shape[1:3], kernel_size, strict=True))

    def windows(x, axis: int, count: int, taps: int):
        # Cuts the axis into strides: a window is `steps` neighbouring strides, cut to `taps`.
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
    """Convolves the padded gradient with the flipped kernel, phase by phase."""
    turned, *margins = _phases(kernel.swapaxes(2, 3), stride)
    # Pixels that the kernel never reaches come from a wider margin: padding the result instead
    # slows the operations after it, because XLA then tests every pixel for padding.
    reached = [count + margin for count, margin in zip(d_out.shape[1:3], margins, strict=True)]
    missing = [max(0, -(-n // stride) - there) for n, there in zip(size, reached, strict=True)]
    padding = [(margin, margin + more) for margin, more in zip(margins, missing, strict=True)]
    d_x = lax.conv_general_dilated(
        d_out, turned, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return _depth_to_space(d_x, stride)[:, : size[0], : size[1]]


def _phases(kernel, stride: int):
    """The kernel of a transposed convolution, rearranged to stride 1 for all phases of the output.

    Output position stride * q + r gets input q - t times kernel row stride * t + r: a convolution
    over t with a flipped kernel, whose outputs have a channel for each r.

    Returns:
      the kernel [high, wide, channels, stride * stride * features], and the rows and columns of
      padding on each side of the input.
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
    """Spreads the channels of each pixel over a block of `stride` x `stride` pixels."""
    if stride == 1:
        return x
    batch, height, width, depth = x.shape
    channels = depth // stride**2
    x = x.reshape(batch, height, width, stride, stride, channels).swapaxes(2, 3)
    return x.reshape(batch, height * stride, width * stride, channels)
