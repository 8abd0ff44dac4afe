"""2x2 convolution and max pooling as matrix products and reshapes.

XLA's CPU backend runs the gradient of a convolution slowly, any convolution inside
`scan` about ten times slower than outside, and one vmapped over seeds as a grouped
convolution, slower still. Written as four shifted views and one matmul it is fast in all
three places, and the same to rounding. Pooling by reshape has a deterministic gradient
on every backend.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def conv2x2(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "2 2 channels features"],
    bias: Float[Array, " features"],
) -> Float[Array, "batch height-1 width-1 features"]:
    """Valid convolution with a 2x2 kernel and stride 1 (cross-correlation, as PyTorch's)."""
    height, width = x.shape[1] - 1, x.shape[2] - 1
    patches = jnp.concatenate(
        [x[:, i : i + height, j : j + width] for i in range(2) for j in range(2)], axis=-1
    )
    flat_kernel = kernel.reshape(-1, kernel.shape[-1])
    flat_patches = patches.reshape(-1, patches.shape[-1])
    out = flat_patches @ flat_kernel + bias
    return out.reshape(x.shape[0], height, width, kernel.shape[-1])


def max_pool2x2(
    x: Float[Array, "batch height width channels"],
) -> Float[Array, "batch height/2 width/2 channels"]:
    """Maximum over non-overlapping 2x2 windows; height and width must be even."""
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))
