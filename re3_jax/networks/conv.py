"""Convolutions that are fast on a CPU in forward and backward, in loops and over seeds.

XLA's CPU backend runs the gradient of a convolution slowly, many convolutions inside `scan` or
without padding too, and one vmapped over seeds as a grouped convolution, slower still.

`conv2x2` is four shifted views and one matmul with the batch as the last axis: for the few
channels of a small image the copies of contiguous memory matter more than the product.
Pooling by reshape has a deterministic gradient on every backend.

`conv2d` is XLA's own convolution on GPU and TPU. On a CPU it is the same to rounding, with other
ways to get there: see `_cpu_forward` and `_cpu_kernel_gradient`.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

BLOCK_BYTES = 2**21
"""Size of the shifted copies of one block of images: about the second-level cache of one core."""

PRODUCT_ROWS = 1_500
"""Positions of one product of the kernel's gradient, where a block of images has as many."""


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

    Has first derivatives in reverse mode. A gradient that nobody asks for, such as that of
    observations, costs nothing. Vmapped over seeds a CPU does one seed after the other.
    """
    return _convolve(x, kernel, stride) + bias


def conv_transpose2d(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns channels features"],
    bias: Float[Array, " features"],
    stride: int,
) -> Float[Array, "batch out_height out_width features"]:
    """Transposed convolution without padding, as PyTorch's with the kernel's first axes last.

    Images become (size - 1) * stride + rows high. It is a `conv2d` that computes all positions
    between two inputs at once, so its gradients are as fast.
    """
    rows, columns, channels, features = kernel.shape
    if x.shape[1:3] == (1, 1):
        # Each output has one input: between its neighbours there is nothing to add up.
        out = x.reshape(-1, channels) @ kernel.swapaxes(1, 2).swapaxes(0, 1).reshape(channels, -1)
        return out.reshape(-1, rows, columns, features) + bias
    height, width = ((size - 1) * stride for size in x.shape[1:3])
    phases, high, wide = _phases(kernel, stride)
    padded = jnp.pad(x, ((0, 0), (high, high), (wide, wide), (0, 0)))
    out = conv2d(padded, phases, jnp.zeros(stride**2 * features))
    return _depth_to_space(out, stride)[:, : height + rows, : width + columns] + bias


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _convolve(x, kernel, stride: int):
    return _by_platform(partial(_cpu_forward, stride=stride), partial(_native, stride=stride))(
        x, kernel
    )


def _convolve_forward(x, kernel, stride: int):
    return _convolve(x, kernel, stride), (x, kernel)


def _convolve_backward(stride: int, residuals, d_out):
    x, kernel = residuals

    def native_input_gradient(kernel, d_out):
        pull = jax.linear_transpose(lambda x: _native(x, kernel, stride), x_like)
        return pull(d_out)[0]

    def native_kernel_gradient(x, d_out):
        pull = jax.linear_transpose(lambda kernel: _native(x, kernel, stride), kernel_like)
        return pull(d_out)[0]

    x_like, kernel_like = (jax.typeof(array) for array in residuals)
    cpu_input_gradient = partial(_cpu_input_gradient, size=x.shape[1:3], stride=stride)
    cpu_kernel_gradient = partial(_cpu_kernel_gradient, kernel_size=kernel.shape[:2], stride=stride)
    d_x = _by_platform(cpu_input_gradient, native_input_gradient)(kernel, d_out)
    d_kernel = _by_platform(cpu_kernel_gradient, native_kernel_gradient)(x, d_out)
    return d_x, d_kernel


_convolve.defvjp(_convolve_forward, _convolve_backward)


def _by_platform(on_cpu: Callable, elsewhere: Callable) -> Callable:
    """A function of two arrays whose `vmap` is a loop on a CPU."""

    @jax.custom_batching.custom_vmap
    def run(first, second):
        return lax.platform_dependent(first, second, cpu=on_cpu, default=elsewhere)

    @run.def_vmap
    def _(axis_size, batched, first, second):
        del axis_size

        def one_by_one(*arguments):
            mapped = [x for x, is_batched in zip(arguments, batched, strict=True) if is_batched]

            def body(slices):
                rest = iter(slices)
                pairs = zip(arguments, batched, strict=True)
                return run(*(next(rest) if is_batched else x for x, is_batched in pairs))

            return lax.map(body, mapped)

        all_at_once = jax.vmap(
            elsewhere, in_axes=[0 if is_batched else None for is_batched in batched]
        )
        return lax.platform_dependent(first, second, cpu=one_by_one, default=all_at_once), True

    return run


def _native(x, kernel, stride: int, padding=((0, 0), (0, 0))):
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _cpu_forward(x, kernel, stride: int):
    """XLA's own on images without a stride, with columns too many that are cut off again.

    In jaxlib 0.10.2 YNNPACK takes every convolution whose output is not larger than its input,
    and runs it on one core, without padding at a fifth of a matrix product's rate. Columns of
    zeros that make the output larger leave it to Eigen, which reaches that rate on all cores.
    The cut costs nothing where an elementwise operation follows.
    """
    rows, columns, _, features = kernel.shape
    height, width = (x.shape[1] - rows) // stride + 1, (x.shape[2] - columns) // stride + 1
    high, wide = -(-rows // stride), -(-columns // stride)
    kernel = jnp.pad(
        kernel, ((0, high * stride - rows), (0, wide * stride - columns), (0, 0), (0, 0))
    )
    kernel = kernel.reshape(high, stride, wide, -1, features).swapaxes(1, 2)
    kernel = kernel.reshape(high, wide, -1, features)
    return _native(_space_to_depth(x, stride), kernel, 1, ((0, 0), (0, wide)))[:, :height, :width]


def _cpu_input_gradient(kernel, d_out, size: tuple[int, int], stride: int):
    """The convolution of the padded gradient with the kernel turned round, phase by phase."""
    turned, rows, columns = _phases(kernel.swapaxes(2, 3), stride)
    d_x = _native(d_out, turned, 1, ((rows, rows), (columns, columns)))
    d_x = _depth_to_space(d_x, stride)[:, : size[0], : size[1]]
    # Pixels that the kernel never reaches.
    missing = [(0, wanted - there) for wanted, there in zip(size, d_x.shape[1:3], strict=True)]
    return jnp.pad(d_x, ((0, 0), *missing, (0, 0)))


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


def _cpu_kernel_gradient(x, d_out, kernel_size: tuple[int, int], stride: int):
    """Sum over blocks of images of shifted images times shifted gradients.

    Images are shifted by columns and gradients by rows, so that one product over all positions
    holds every pair of shifts, and each array is copied three times for a 3x3 kernel where
    patches would copy the images nine times. A product has `PRODUCT_ROWS` positions, of several
    images if need be: with fewer most of the time would go into the sum of the products.
    """
    rows, columns = kernel_size
    batch, height, width, features = d_out.shape
    channels = x.shape[-1]
    row_shifts, column_shifts = -(-rows // stride), -(-columns // stride)
    x = _space_to_depth(x, stride)[:, : height + row_shifts - 1]
    positions, depth = x.shape[1] * width, x.shape[3]
    copied = 4 * positions * max(column_shifts * depth, row_shifts * features)
    images = _images_at_once(batch, copied)
    together = _divisors(images)
    products = images // next((n for n in together if n * positions >= PRODUCT_ROWS), images)

    def of_block(block):
        x, d_out = block
        shifted = [x[:, :, j : j + width] for j in range(column_shifts)]
        gradients = [
            jnp.pad(d_out, ((0, 0), (i, row_shifts - 1 - i), (0, 0), (0, 0)))
            for i in range(row_shifts)
        ]
        first, second = (
            jnp.concatenate(copies, axis=-1).reshape(products, -1, sum(c.shape[-1] for c in copies))
            for copies in (shifted, gradients)
        )
        return jnp.einsum("npc,npf->ncf", first, second).sum(axis=0)

    blocks = (
        x.reshape(-1, images, *x.shape[1:]),
        d_out.reshape(-1, images, height, width, features),
    )
    # A sum in the loop's carry would need a start typed as varying inside shard_map.
    d_kernel = lax.map(of_block, blocks).sum(axis=0)
    d_kernel = d_kernel.reshape(column_shifts, stride, stride, channels, row_shifts, features)
    d_kernel = d_kernel.transpose(4, 1, 0, 2, 3, 5)
    d_kernel = d_kernel.reshape(row_shifts * stride, column_shifts * stride, channels, features)
    return d_kernel[:rows, :columns]


def _space_to_depth(x, stride: int):
    """Blocks of `stride` x `stride` pixels as one pixel of more channels; zeros fill the last."""
    if stride == 1:
        return x
    batch, height, width, channels = x.shape
    high, wide = -(-height // stride), -(-width // stride)
    x = jnp.pad(x, ((0, 0), (0, high * stride - height), (0, wide * stride - width), (0, 0)))
    x = x.reshape(batch, high, stride, wide, stride * channels).swapaxes(2, 3)
    return x.reshape(batch, high, wide, stride * stride * channels)


def _images_at_once(batch: int, bytes_of_one: int) -> int:
    """The largest divisor of the batch whose copies stay within `BLOCK_BYTES`."""
    most = max(1, BLOCK_BYTES // bytes_of_one)
    return max(count for count in _divisors(batch) if count <= most)


def _divisors(number: int) -> list[int]:
    return [count for count in range(1, number + 1) if number % count == 0]
