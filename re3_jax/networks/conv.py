"""Convolutions that are fast on a CPU in forward and backward, in loops and over seeds.

XLA's CPU backend runs the gradient of a convolution slowly, and one vmapped over seeds as a
grouped convolution, slower still.

`conv2x2` is four shifted views and one matmul with the batch as the last axis: for the few
channels of a small image the copies of contiguous memory matter more than the product.
Pooling by reshape has a deterministic gradient on every backend.

`conv2d` is XLA's own convolution on GPU and TPU. On a CPU it is the same to rounding: forward
XLA's own, backward what gets there faster, see `_cpu_input_gradient`, `_cpu_kernel_gradient` and,
for small images, `_patches`. Programs that are to run them on every core of a CPU are compiled
with `compilation.jit`.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

BLOCK_BYTES = 2**21
"""Size of the patches of one block of images: about the second-level cache of one core."""

SMALL_IMAGE = 36
"""Positions of an output up to which a CPU adds up the gradients of patches."""

PACKET = 16
"""Numbers that a CPU's core multiplies at once."""

PRODUCT_POSITIONS = 3_000
"""Positions that are summed within one product of the kernel's gradient, or more."""


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

    The result has the precision of the images, the bias may have a wider one. Has first
    derivatives in reverse mode. A gradient that nobody asks for, such as that of
    observations, costs nothing. Vmapped over seeds a CPU does one seed after the other.
    """
    return (_convolve(x, kernel, stride) + bias).astype(x.dtype)


def conv_transpose2d(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "rows columns features channels"],
    bias: Float[Array, " features"],
    stride: int,
) -> Float[Array, "batch out_height out_width features"]:
    """Transposed convolution without padding, as PyTorch's; the kernel's axes are Keras's.

    Images become (size - 1) * stride + rows high. It is what `conv2d` does backwards, and its
    gradients are what `conv2d` does forwards.
    """
    return (_spread(x, kernel, stride) + bias).astype(x.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _convolve(x, kernel, stride: int):
    return _forward(x, kernel, stride)


def _convolve_backward(stride: int, residuals, d_out):
    x, kernel = residuals
    return (
        _input_gradient(kernel, d_out, x.shape[1:3], stride),
        _kernel_gradient(x, d_out, kernel.shape[:2], stride),
    )


_convolve.defvjp(
    lambda x, kernel, stride: (_convolve(x, kernel, stride), (x, kernel)), _convolve_backward
)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _spread(x, kernel, stride: int):
    """The transpose of `_convolve` with the same kernel."""
    size = [(n - 1) * stride + k for n, k in zip(x.shape[1:3], kernel.shape[:2], strict=True)]
    return _input_gradient(kernel, x, size, stride)


def _spread_backward(stride: int, residuals, d_out):
    x, kernel = residuals
    return _forward(d_out, kernel, stride), _kernel_gradient(d_out, x, kernel.shape[:2], stride)


_spread.defvjp(
    lambda x, kernel, stride: (_spread(x, kernel, stride), (x, kernel)), _spread_backward
)


def _forward(x, kernel, stride: int):
    """Convolution of images."""
    native = partial(_native, stride=stride)
    return _by_platform(native, native)(x, kernel)


def _input_gradient(kernel, d_out, size, stride: int):
    """Gradient of images of `size` (height, width)."""
    size = tuple(size)
    x_like = jax.ShapeDtypeStruct((d_out.shape[0], *size, kernel.shape[2]), d_out.dtype)

    def native(kernel, d_out):
        pull = jax.linear_transpose(lambda x: _native(x, kernel, stride), x_like)
        return pull(d_out)[0]

    positions = d_out.shape[1] * d_out.shape[2]
    on_cpu = _patch_input_gradient if positions <= SMALL_IMAGE else _cpu_input_gradient
    return _by_platform(partial(on_cpu, size=size, stride=stride), native)(kernel, d_out)


def _kernel_gradient(x, d_out, kernel_size, stride: int):
    """Gradient of a kernel of `kernel_size` (rows, columns)."""
    shape = (*kernel_size, x.shape[-1], d_out.shape[-1])
    kernel_like = jax.ShapeDtypeStruct(shape, x.dtype)

    def native(x, d_out):
        pull = jax.linear_transpose(lambda kernel: _native(x, kernel, stride), kernel_like)
        return pull(d_out)[0]

    on_cpu = partial(_cpu_kernel_gradient, kernel_size=shape[:2], stride=stride)
    return _by_platform(on_cpu, native)(x, d_out)


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


def _patch_input_gradient(kernel, d_out, size: tuple[int, int], stride: int):
    """The gradient of all patches in one product, added up where they overlap."""
    rows, columns, channels, features = kernel.shape
    batch, height, width, _ = d_out.shape
    images = _images_at_once(batch, 4 * height * width * rows * columns * channels)
    flat = kernel.reshape(-1, features).T
    block_like = jax.ShapeDtypeStruct((images, *size, channels), d_out.dtype)
    add_up = jax.linear_transpose(lambda x: _patches(x, (rows, columns), stride), block_like)
    blocks = d_out.reshape(-1, images * height * width, features)

    def of_block(block):
        patches = jnp.matmul(block, flat, preferred_element_type=_wide(block))
        return add_up(patches.astype(d_out.dtype))[0]

    return lax.map(of_block, blocks).reshape(batch, *size, channels)


def _cpu_input_gradient(kernel, d_out, size: tuple[int, int], stride: int):
    """The convolution of the padded gradient with the kernel turned round, phase by phase."""
    turned, *margins = _phases(kernel.swapaxes(2, 3), stride)
    # Pixels that the kernel never reaches come from a wider margin: zeros put on afterwards make
    # what follows slow, because XLA then asks of every pixel whether it is one of them.
    reached = [count + margin for count, margin in zip(d_out.shape[1:3], margins, strict=True)]
    missing = [max(0, -(-n // stride) - there) for n, there in zip(size, reached, strict=True)]
    padding = [(margin, margin + more) for margin, more in zip(margins, missing, strict=True)]
    d_x = _native(d_out, turned, 1, padding)
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


def _cpu_kernel_gradient(x, d_out, kernel_size: tuple[int, int], stride: int):
    """The convolution of images with gradients, a block of images being the channels of one.

    The sum over images and positions is then what a convolution sums over anyway, and its copies
    are made where the product needs them. Axes are turned here, because XLA does it for
    convolutions outside of loops alone, and runs others many times slower. Whole packets of
    images, because the copies of others are slower too.
    """
    rows, columns = kernel_size
    batch, height, width, features = d_out.shape
    channels = x.shape[-1]
    high, wide = -(-rows // stride), -(-columns // stride)
    images = min(batch, PACKET * -(-PRODUCT_POSITIONS // (PACKET * height * width)))

    def of_block(x, d_out):
        missing = [(0, -len(x) % PACKET), (0, 0), (0, 0), (0, 0)]
        x, d_out = (jnp.pad(y.astype(_wide(y)), missing) for y in (x, d_out))
        x = _space_to_depth(x, stride)[:, : height + high - 1, : width + wide - 1]
        return _native(x.transpose(3, 1, 2, 0), d_out.transpose(1, 2, 0, 3), stride=1)

    def add(block, total):
        first = block * images
        return total + of_block(*(lax.dynamic_slice_in_dim(y, first, images) for y in (x, d_out)))

    # Begun with a block: zeros would have to be typed as varying inside shard_map. Added up as it
    # goes, because XLA's sum over a stack of the blocks' results is slow.
    begun = batch % images or images
    d_kernel = of_block(x[-begun:], d_out[-begun:])
    d_kernel = lax.fori_loop(0, (batch - begun) // images, add, d_kernel)
    d_kernel = d_kernel.reshape(stride, stride, channels, high, wide, features)
    d_kernel = d_kernel.transpose(3, 0, 4, 1, 2, 5)
    d_kernel = d_kernel.reshape(high * stride, wide * stride, channels, features)
    return d_kernel[:rows, :columns].astype(d_out.dtype)


def _wide(x):
    """The precision of a sum of many products: float32 where that of an array is narrower."""
    return jnp.promote_types(x.dtype, jnp.float32)


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
