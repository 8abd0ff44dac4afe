"""ResNet-50 up to its global average pooling, for inference (He et al. 2016).

This is torchvision's network, which halves the image in the 3x3 convolution of a block instead of
the 1x1 before it. In inference, batch-norm is a fixed scale and shift of each feature;
`from_tensors` folds them into the convolution before it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

BLOCKS = (3, 4, 6, 3)
WIDTHS = (64, 128, 256, 512)
EXPANSION = 4
FEATURE_DIM = WIDTHS[-1] * EXPANSION
BATCH_NORM_EPSILON = 1e-5


class Conv(NamedTuple):
    """A convolution with its batch-norm folded in."""

    kernel: Float[Array | np.ndarray, "rows columns channels features"]
    bias: Float[Array | np.ndarray, " features"]


class Bottleneck(NamedTuple):
    """A residual block: 1x1, 3x3, 1x1, and a 1x1 shortcut where the shape changes."""

    reduce: Conv
    spatial: Conv
    expand: Conv
    shortcut: Conv | None


class ResNet50(NamedTuple):
    """The parameters: a 7x7 convolution and four stages of blocks."""

    stem: Conv
    stages: tuple[tuple[Bottleneck, ...], ...]


def from_tensors(tensors: Mapping[str, np.ndarray]) -> ResNet50:
    """The parameters from torchvision's state dictionary, as float32 NumPy arrays.

    Folds in float64, so the features differ from those of the original network by float32 rounding
    only. Ignores the classifier (`fc`).

    Raises:
      ValueError: if a tensor is missing, of another shape, or not finite; the message names it.
    """

    def tensor(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name not in tensors:
            raise ValueError(f"it has no tensor {name}")
        if tensors[name].shape != shape:
            raise ValueError(f"its {name} is of shape {tensors[name].shape}, not {shape}")
        return tensors[name].astype(np.float64)

    def conv(name: str, norm: str, size: int, channels: int, features: int) -> Conv:
        weight = tensor(f"{name}.weight", (features, channels, size, size))
        names = "weight", "bias", "running_mean", "running_var"
        scale, shift, mean, variance = (tensor(f"{norm}.{part}", (features,)) for part in names)
        scale = scale / np.sqrt(np.maximum(variance, 0) + BATCH_NORM_EPSILON)
        folded = Conv(weight.transpose(2, 3, 1, 0) * scale, shift - mean * scale)
        if not all(np.isfinite(array).all() for array in folded):
            raise ValueError(f"its {name} or {norm} has values that are not finite")
        return Conv(*(np.ascontiguousarray(array, np.float32) for array in folded))

    def block(prefix: str, channels: int, width: int, is_first: bool) -> Bottleneck:
        wide = EXPANSION * width
        return Bottleneck(
            reduce=conv(f"{prefix}.conv1", f"{prefix}.bn1", 1, channels, width),
            spatial=conv(f"{prefix}.conv2", f"{prefix}.bn2", 3, width, width),
            expand=conv(f"{prefix}.conv3", f"{prefix}.bn3", 1, width, wide),
            shortcut=conv(f"{prefix}.downsample.0", f"{prefix}.downsample.1", 1, channels, wide)
            if is_first
            else None,
        )

    stem = conv("conv1", "bn1", 7, 3, WIDTHS[0])
    stages, channels = [], WIDTHS[0]
    for number, (count, width) in enumerate(zip(BLOCKS, WIDTHS, strict=True), start=1):
        blocks = []
        for index in range(count):
            blocks.append(block(f"layer{number}.{index}", channels, width, index == 0))
            channels = EXPANSION * width
        stages.append(tuple(blocks))
    return ResNet50(stem, tuple(stages))


def features(
    params: ResNet50, images: Float[Array, "batch height width 3"]
) -> Float[Array, "batch 2048"]:
    """Features after global average pooling, of images normalised by ImageNet's mean and std."""
    x = jax.nn.relu(_conv(images, params.stem, 2))
    x = lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))
    )
    for number, blocks in enumerate(params.stages):
        for index, block in enumerate(blocks):
            x = _bottleneck(block, x, 2 if number > 0 and index == 0 else 1)
    return x.mean(axis=(1, 2))


def _bottleneck(
    params: Bottleneck, x: Float[Array, "batch height width channels"], stride: int
) -> Float[Array, "batch rows columns features"]:
    residual = jax.nn.relu(_conv(x, params.reduce, 1))
    residual = jax.nn.relu(_conv(residual, params.spatial, stride))
    residual = _conv(residual, params.expand, 1)
    return jax.nn.relu(
        residual + (x if params.shortcut is None else _conv(x, params.shortcut, stride))
    )


def _conv(x: Array, layer: Conv, stride: int) -> Array:
    """A convolution padded with zeros, as PyTorch's with padding (size - 1) / 2."""
    kernel, size = jnp.asarray(layer.kernel), layer.kernel.shape[0]
    if size == 1:
        return x[:, ::stride, ::stride] @ kernel[0, 0] + layer.bias
    pad = (size // 2, size // 2)
    out = lax.conv_general_dilated(
        x, kernel, (stride, stride), (pad, pad), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return out + layer.bias
