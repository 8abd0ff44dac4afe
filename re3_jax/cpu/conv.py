"""Convolutions and transposed convolutions with gradients that are fast on a CPU.

Reason: on a CPU, jaxlib 0.10.2 runs the gradients of a convolution far slower than its forward
pass. They are convolutions with dilation, or with an order of axes that XLA transposes only
outside of loops (https://github.com/jax-ml/jax/issues/12868). Here a CPU computes them as
convolutions without dilation and with the axes in order: `conv_input_gradient`,
`conv_kernel_gradient`. A forward pass over few channels has no stride there (`space_to_depth`).
Seeds under `vmap` run one after the other (`by_platform`). GPUs and TPUs use XLA's own gradients,
but a GPU not those of images for several seeds, which XLA would compute with four times the
products (`input_gradient_in_groups`).

Remove when: the ways `xla` of `benchmarks.conv` are as fast as `re3_jax`, also in `scan` and under
`vmap`, and XLA compiles a transposed convolution of two seeds for a GPU to twice the products of
one. Then `convolve` is `lax.conv_general_dilated`, and `convolve_transposed` its transpose with
respect to the images.

Axes are `NHWC` and `HWIO`; there is no padding, and one stride for both axes.
"""

from functools import partial

import jax
from jax import lax
from jaxtyping import Array, Float

from re3_jax.cpu.by_platform import OfTwoArrays, by_platform
from re3_jax.cpu.conv_input_gradient import input_gradient, input_gradient_in_groups
from re3_jax.cpu.conv_kernel_gradient import kernel_gradient
from re3_jax.cpu.conv_side_by_side import (
    convolve_side_by_side,
    is_side_by_side,
    kernel_gradient_side_by_side,
)
from re3_jax.cpu.space_to_depth import convolve_narrow, is_narrow

Images = Float[Array, "batch height width channels"]
Kernel = Float[Array, "rows columns channels features"]
Out = Float[Array, "batch out_height out_width features"]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(x: Images, kernel: Kernel, stride: int) -> Out:
    """Valid cross-correlation; images, kernel and result have the same dtype.

    Supports first derivatives in reverse mode.
    """
    return _forward(x, kernel, stride)


def _convolve_backward(stride: int, residuals, d_out):
    x, kernel = residuals
    return (
        _input_gradient(kernel, d_out, x.shape[1:3], stride),
        _kernel_gradient(x, d_out, kernel.shape[:2], stride),
    )


convolve.defvjp(
    lambda x, kernel, stride: (convolve(x, kernel, stride), (x, kernel)), _convolve_backward
)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve_transposed(out: Out, kernel: Kernel, stride: int) -> Images:
    """The transpose of `convolve` with respect to its images.

    The result is (out_height - 1) * stride + rows high, (out_width - 1) * stride + columns wide.
    Supports first derivatives in reverse mode.
    """
    height, width = (
        (n - 1) * stride + k for n, k in zip(out.shape[1:3], kernel.shape[:2], strict=True)
    )
    return _input_gradient(kernel, out, (height, width), stride)


def _convolve_transposed_backward(stride: int, residuals, d_x):
    out, kernel = residuals
    return _forward(d_x, kernel, stride), _kernel_gradient(d_x, out, kernel.shape[:2], stride)


convolve_transposed.defvjp(
    lambda out, kernel, stride: (convolve_transposed(out, kernel, stride), (out, kernel)),
    _convolve_transposed_backward,
)


@partial(jax.jit, static_argnums=2, inline=True)
def _forward(x, kernel, stride: int):
    native = partial(_native, stride=stride)
    on_cpu: OfTwoArrays = native
    if is_side_by_side(kernel.shape[:2], stride):
        on_cpu = convolve_side_by_side
    elif is_narrow(kernel.shape, stride):
        on_cpu = partial(convolve_narrow, stride=stride)
    return by_platform(on_cpu, native)(x, kernel)


@partial(jax.jit, static_argnums=(2, 3), inline=True)
def _input_gradient(kernel, d_out, size: tuple[int, int], stride: int):
    """Gradient with respect to images of `size` (height, width)."""
    x_like = jax.ShapeDtypeStruct((d_out.shape[0], *size, kernel.shape[2]), d_out.dtype)

    def native(kernel, d_out):
        pull = jax.linear_transpose(lambda x: _native(x, kernel, stride), x_like)
        return pull(d_out)[0]

    on_cpu = partial(input_gradient, size=size, stride=stride)
    of_seeds = partial(input_gradient_in_groups, size=size, stride=stride)
    return by_platform(on_cpu, native, mapped_on_gpu=of_seeds)(kernel, d_out)


@partial(jax.jit, static_argnums=(2, 3), inline=True)
def _kernel_gradient(x, d_out, kernel_size: tuple[int, int], stride: int):
    """Gradient with respect to a kernel of `kernel_size` (rows, columns)."""
    shape = (*kernel_size, x.shape[-1], d_out.shape[-1])
    kernel_like = jax.ShapeDtypeStruct(shape, x.dtype)

    def native(x, d_out):
        pull = jax.linear_transpose(lambda kernel: _native(x, kernel, stride), kernel_like)
        return pull(d_out)[0]

    if is_side_by_side(kernel_size, stride):
        on_cpu = partial(kernel_gradient_side_by_side, stride=stride)
    else:
        on_cpu = partial(kernel_gradient, kernel_size=kernel_size, stride=stride)
    return by_platform(on_cpu, native)(x, d_out)


def _native(x, kernel, stride: int):
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
