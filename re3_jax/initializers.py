"""Initial weights with the distributions of `torch.nn.init`.

Kernels are input-major, as JAX's layers expect: `[in, out]` for a linear layer,
`[height, width, in, out]` for a convolution, so one function serves both. Fans are PyTorch's:
fan_in = in * height * width, fan_out = out * height * width.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from re3_jax.cpu import flat_random
from re3_jax.cpu.linear_algebra import qr_one_at_a_time

Scheme = Literal["torch", "xavier", "he", "orthogonal"]
"""The paper's initialisations of a random encoder (Section 4.1, "Effects of Initialization")."""

RELU_GAIN = math.sqrt(2.0)


class Fans(NamedTuple):
    """Number of inputs that one output sees, and of outputs that one input feeds."""

    fan_in: int
    fan_out: int


class Layer(NamedTuple):
    """Kernel and bias of one linear or convolution layer."""

    kernel: Float[Array, "..."]
    bias: Float[Array, " out"]


def fans(shape: tuple[int, ...]) -> Fans:
    """Fans of a kernel of shape `[..., in, out]`.

    Raises:
      ValueError: if the shape has fewer than two axes.
    """
    if len(shape) < 2:
        raise ValueError(f"a kernel needs at least the axes [in, out], but its shape is {shape}")
    receptive_field = math.prod(shape[:-2])
    return Fans(shape[-2] * receptive_field, shape[-1] * receptive_field)


def torch_default(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """PyTorch's default kernel, float32: U(-b, b) with b = 1 / sqrt(fan_in).

    Equals `kaiming_uniform_(a=sqrt(5))`, the default of `nn.Linear` and `nn.Conv2d`.
    """
    return _scale_torch(_uniform(key, shape, jnp.float32))


def torch_default_bias(key: PRNGKeyArray, kernel_shape: tuple[int, ...]) -> Float[Array, " out"]:
    """PyTorch's default bias, float32: U(-b, b) with b = 1 / sqrt(fan_in of the layer's kernel)."""
    return _uniform(key, kernel_shape[-1:], jnp.float32) / math.sqrt(fans(kernel_shape).fan_in)


def layers(
    scheme: Scheme, key: PRNGKeyArray, kernel_shapes: Sequence[tuple[int, ...]]
) -> list[Layer]:
    """Draws kernels and biases of a network, float32.

    - `torch`: `torch_default` and `torch_default_bias`.
    - `xavier`: `xavier_uniform_` with gain 1, U(-b, b) with b = sqrt(6 / (fan_in + fan_out)).
    - `he`: `kaiming_normal_` for ReLU, N(0, 2 / fan_in), not truncated (JAX's `he_normal` is).
    - `orthogonal`: `orthogonal_` on the kernel flattened to `[rest, out]`: uniform over matrices
      with orthogonal columns, or with orthogonal rows if out > rest. The gain is 1 for a linear
      layer and ReLU's sqrt(2) for a convolution, as in the released code's `weight_init`.

    Biases are zero except under `torch`.

    Raises:
      ValueError: if the scheme is unknown.
    """
    if scheme not in _RULES:
        raise ValueError(f"unknown initialisation {scheme!r}: choose one of {', '.join(_RULES)}")
    rule = _RULES[scheme]
    sizes = [math.prod(shape) for kernel in kernel_shapes for shape in (kernel, kernel[-1:])]
    # One draw for the whole network: each draw adds a good part of a second of compile time.
    pieces = iter(jnp.split(rule.draw(key, (sum(sizes),), jnp.float32), np.cumsum(sizes)[:-1]))
    kernel_noise, bias_noise = [], []
    for shape in kernel_shapes:
        kernel_noise.append(next(pieces).reshape(shape))
        bias_noise.append(next(pieces) / math.sqrt(fans(shape).fan_in))
    if scheme != "torch":
        bias_noise = [jnp.zeros_like(bias) for bias in bias_noise]
    return [Layer(*pair) for pair in zip(rule.scale(kernel_noise), bias_noise, strict=True)]


def _uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike) -> Float[Array, "..."]:
    return flat_random.uniform(key, shape, dtype, -1.0, 1.0)


def _scale_torch(noise: Float[Array, "..."]) -> Float[Array, "..."]:
    return noise / math.sqrt(fans(noise.shape).fan_in)


def _scale_xavier(noise: Float[Array, "..."]) -> Float[Array, "..."]:
    return noise * math.sqrt(6.0 / sum(fans(noise.shape)))


def _scale_he(noise: Float[Array, "..."]) -> Float[Array, "..."]:
    return noise * (RELU_GAIN / math.sqrt(fans(noise.shape).fan_in))


def _orthogonalize(noise: list[Float[Array, "..."]]) -> list[Float[Array, "..."]]:
    matrices = [of_layer.reshape(-1, of_layer.shape[-1]) for of_layer in noise]
    tall = [matrix if _is_tall(matrix) else matrix.T for matrix in matrices]
    kernels = []
    for of_layer, matrix, (q, r) in zip(noise, matrices, qr_one_at_a_time(tall), strict=True):
        # The signs make Q uniform over the orthogonal matrices (Mezzadri, 2007).
        q = q * jnp.where(jnp.diagonal(r) < 0, -1.0, 1.0)
        kernel = (q if _is_tall(matrix) else q.T).reshape(of_layer.shape)
        kernels.append(kernel if kernel.ndim == 2 else RELU_GAIN * kernel)
    return kernels


def _is_tall(matrix: Float[Array, "rows columns"]) -> bool:
    return matrix.shape[0] >= matrix.shape[1]


_Scale = Callable[[list[Float[Array, "..."]]], list[Float[Array, "..."]]]


def _each(scale: Callable[[Float[Array, "..."]], Float[Array, "..."]]) -> _Scale:
    return lambda noise: [scale(of_layer) for of_layer in noise]


class _Rule(NamedTuple):
    """Draws the noise of a whole network, and scales each layer's noise into a kernel."""

    draw: Callable[..., Float[Array, "..."]]
    scale: _Scale


_RULES: dict[str, _Rule] = {
    "torch": _Rule(_uniform, _each(_scale_torch)),
    "xavier": _Rule(_uniform, _each(_scale_xavier)),
    "he": _Rule(jax.random.normal, _each(_scale_he)),
    "orthogonal": _Rule(jax.random.normal, _orthogonalize),
}
