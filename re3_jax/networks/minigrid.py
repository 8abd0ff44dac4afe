"""The MiniGrid convolution stack, shared by the agent's trunk and the random encoder.

Three 2x2 convolutions of 16, 32 and 64 filters, each followed by a ReLU, the first also
by a 2x2 max pool (paper, Appendix "Details on MiniGrid Experiments"): a 7x7x3 view
becomes 64 numbers. The integer codes of the view enter unscaled.
"""

import jax
from jaxtyping import Array, Float, Num

from re3_jax.cpu.batch_last import batch_last
from re3_jax.initializers import Layer
from re3_jax.networks.conv import conv2x2, max_pool2x2

KERNEL_SHAPES = ((2, 2, 3, 16), (2, 2, 16, 32), (2, 2, 32, 64))
FEATURE_DIM = 64
OBSERVATION_SHAPE = (7, 7, 3)


TrunkParams = tuple[Layer, ...]


def trunk(params: TrunkParams, observation: Num[Array, "batch 7 7 3"]) -> Float[Array, "batch 64"]:
    """Features of a batch of views, float32.

    Bias and ReLU are monotone, so adding them after pooling gives the same result as before it, on
    a quarter of the numbers.
    """
    first, second, third = params
    x = batch_last(observation)
    x = _rectified(max_pool2x2(conv2x2(x, first.kernel)), first.bias)
    x = _rectified(conv2x2(x, second.kernel), second.bias)
    x = _rectified(conv2x2(x, third.kernel), third.bias)
    return x.reshape(FEATURE_DIM, -1).T


def _rectified(
    x: Float[Array, "features height width batch"], bias: Float[Array, " features"]
) -> Float[Array, "features height width batch"]:
    return jax.nn.relu(x + bias[:, None, None, None])
