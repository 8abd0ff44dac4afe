"""2x2 convolution and max pooling as matrix products and reshapes, batch axis last.

XLA's CPU backend runs the gradient of a convolution slowly, any convolution inside
`scan` about ten times slower than outside, and one vmapped over seeds as a grouped
convolution, slower still. Written as four shifted views and one matmul it is fast in all
three places, and the same to rounding. With the batch as the last axis the shifted views
are copies of contiguous memory, which for the few channels of a small image matters more
than the product. Pooling by reshape has a deterministic gradient on every backend.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


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
    """Valid convolution (cross-correlation, as PyTorch's) with one stride for both axes."""
    out = lax.conv_general_dilated(
        x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return out + bias
