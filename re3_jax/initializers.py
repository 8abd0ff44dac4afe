"""Initial weights as `torch.nn.init` draws them.

Kernels are stored input-major, as JAX's layers want them: `[in, out]` for a linear layer,
`[height, width, in, out]` for a convolution. One function therefore serves both. Fans count as
in PyTorch: fan_in = in * height * width, fan_out = out * height * width.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

Scheme = Literal["torch", "xavier", "he", "orthogonal"]
"""The paper's initialisations of a random encoder (Section 4.1, "Effects of Initialization")."""

RELU_GAIN = math.sqrt(2.0)


class Fans(NamedTuple):
    """Number of inputs that one output sees, and of outputs that one input feeds."""

    fan_in: int
    fan_out: int


def fans(shape: tuple[int, ...]) -> Fans:
    """Fans of a kernel of shape `[..., in, out]`.

    Raises:
      ValueError: if the shape has fewer than two axes.
    """
    if len(shape) < 2:
        raise ValueError(f"a kernel needs at least the axes [in, out], but its shape is {shape}")
    receptive_field = math.prod(shape[:-2])
    return Fans(shape[-2] * receptive_field, shape[-1] * receptive_field)


def torch_default(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32
) -> Float[Array, "..."]:
    """PyTorch's default kernel: U(-b, b) with b = 1 / sqrt(fan_in).

    This is `kaiming_uniform_(a=sqrt(5))`, what `nn.Linear` and `nn.Conv2d` call.
    """
    bound = 1.0 / math.sqrt(fans(shape).fan_in)
    return jax.random.uniform(key, shape, dtype, -bound, bound)


def torch_default_bias(
    key: PRNGKeyArray, kernel_shape: tuple[int, ...], dtype: DTypeLike = jnp.float32
) -> Float[Array, " out"]:
    """PyTorch's default bias: U(-b, b) with b = 1 / sqrt(fan_in of the layer's kernel)."""
    bound = 1.0 / math.sqrt(fans(kernel_shape).fan_in)
    return jax.random.uniform(key, kernel_shape[-1:], dtype, -bound, bound)


def xavier(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32
) -> Float[Array, "..."]:
    """`xavier_uniform_` with gain 1: U(-b, b), b = sqrt(6 / (fan_in + fan_out))."""
    bound = math.sqrt(6.0 / sum(fans(shape)))
    return jax.random.uniform(key, shape, dtype, -bound, bound)


def he(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32
) -> Float[Array, "..."]:
    """`kaiming_normal_` for ReLU: N(0, 2 / fan_in), not truncated (JAX's `he_normal` is)."""
    return jax.random.normal(key, shape, dtype) * (RELU_GAIN / math.sqrt(fans(shape).fan_in))


def orthogonal(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32
) -> Float[Array, "..."]:
    """`orthogonal_` with ReLU's gain sqrt(2), on the kernel flattened to `[rest, out]`.

    Uniform over (semi-)orthogonal matrices: the columns are orthogonal where there are at
    most as many outputs as inputs, otherwise the rows are.
    """
    fans(shape)
    return jax.nn.initializers.orthogonal(RELU_GAIN, column_axis=-1)(key, shape, dtype)


KERNEL_INITIALIZERS: dict[str, Callable[..., Float[Array, "..."]]] = {
    "torch": torch_default,
    "xavier": xavier,
    "he": he,
    "orthogonal": orthogonal,
}


def layer(
    scheme: Scheme, key: PRNGKeyArray, kernel_shape: tuple[int, ...]
) -> tuple[Float[Array, "..."], Float[Array, " out"]]:
    """Kernel and bias of one linear or convolution layer, float32.

    The bias is random under `torch` and zero under the other schemes.

    Raises:
      ValueError: if the scheme is unknown.
    """
    if scheme not in KERNEL_INITIALIZERS:
        raise ValueError(
            f"unknown initialisation {scheme!r}: choose one of {', '.join(KERNEL_INITIALIZERS)}"
        )
    kernel_key, bias_key = jax.random.split(key)
    kernel = KERNEL_INITIALIZERS[scheme](kernel_key, kernel_shape)
    if scheme == "torch":
        return kernel, torch_default_bias(bias_key, kernel_shape)
    return kernel, jnp.zeros(kernel_shape[-1:], jnp.float32)
