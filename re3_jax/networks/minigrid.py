"""The MiniGrid convolution stack, shared by the agent's trunk and the random encoder.

Three 2x2 convolutions of 16, 32 and 64 filters, each followed by a ReLU, the first also
by a 2x2 max pool (paper, Appendix "Details on MiniGrid Experiments"): a 7x7x3 view
becomes 64 numbers. The integer codes of the view enter unscaled.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from re3_jax.initializers import Layer
from re3_jax.networks.conv import conv2x2, max_pool2x2

KERNEL_SHAPES = ((2, 2, 3, 16), (2, 2, 16, 32), (2, 2, 32, 64))
FEATURE_DIM = 64
OBSERVATION_SHAPE = (7, 7, 3)


TrunkParams = tuple[Layer, ...]


def trunk(params: TrunkParams, observation: Num[Array, "batch 7 7 3"]) -> Float[Array, "batch 64"]:
    """Features of a batch of views, float32.

    ReLU is monotone, so pooling before it gives the same result as pooling after it and leaves
    ReLU a quarter of the numbers.
    """
    x = observation.transpose(3, 1, 2, 0).astype(jnp.float32)
    first, second, third = params
    x = jax.nn.relu(max_pool2x2(conv2x2(x, *first)))
    x = jax.nn.relu(conv2x2(x, *second))
    x = jax.nn.relu(conv2x2(x, *third))
    return x.reshape(FEATURE_DIM, -1).T
