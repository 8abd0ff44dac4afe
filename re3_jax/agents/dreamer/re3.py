"""RE3 in Dreamer: state entropy of the frames of a batch of sequences (paper, Section 4.1).

Every frame is encoded once, when it is acted on, by a random encoder of the world model's own
shape. The neighbours of a batch's frames are sought among each other, as the authors do, or among
all frames stored; the distance to the k-th of them, divided by its running standard deviation, is
added to what the reward head learns to predict. Actor and value meet it in imagination only.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from re3_jax import initializers
from re3_jax.agents.dreamer import networks
from re3_jax.agents.dreamer.config import HeadOrder, SequenceNeighbours
from re3_jax.envs.base import EnvSpec
from re3_jax.initializers import Layer
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import Encoder, never_trained, scaled, state_entropy
from re3_jax.networks import conv_stack, mlp
from re3_jax.networks.conv_stack import ConvStack

LAYER_NORM_EPSILON = 1e-3
"""Keras' default; layer normalisation adds it to the variance."""


class RandomEncoder(NamedTuple):
    """Four convolutions and a linear layer."""

    convs: ConvStack
    output: Layer


def encoder_from(config: RE3Config, head_order: HeadOrder, conv_depth: int) -> Encoder:
    """The random encoder of 64x64 frames.

    Args:
      config: length of a latent, how weights are drawn, number of encoders.
      head_order: what follows the linear layer.
      conv_depth: filters of the first convolution.
    """

    def draw(key: PRNGKeyArray, channels: int) -> RandomEncoder:
        convs = conv_stack.dreamer(conv_depth)
        kernels = conv_stack.kernel_shapes(convs, channels)
        linear = networks.embedding_dim(conv_depth), config.latent_dim
        *layers, output = initializers.layers(config.encoder_init, key, [*kernels, linear])
        return RandomEncoder(conv_stack.of_layers(convs, layers), output)

    def init(key: PRNGKeyArray, spec: EnvSpec) -> RandomEncoder:
        channels = spec.observation_shape[-1]
        if config.ensemble_size == 1:
            return draw(key, channels)
        return jax.vmap(draw, (0, None))(jax.random.split(key, config.ensemble_size), channels)

    def encode_one(
        params: RandomEncoder, frames: UInt8[Array, "batch 64 64 channels"]
    ) -> Float[Array, "batch latent"]:
        with jax.default_matmul_precision("highest"):
            x = networks.encode(params.convs, networks.preprocess(frames))
            x = mlp.linear(params.output, x)
        if head_order == "layer_norm_then_tanh":
            return jnp.tanh(mlp.layer_norm(x, LAYER_NORM_EPSILON))
        return mlp.layer_norm(jnp.tanh(x), LAYER_NORM_EPSILON)

    def encode(params: RandomEncoder, frames: UInt8[Array, "batch 64 64 channels"]):
        if config.ensemble_size == 1:
            return encode_one(params, frames)
        return jax.vmap(encode_one, (0, None))(params, frames)

    return Encoder(init, encode, lambda spec: config.latent_dim, never_trained)


def sequence_re3(
    config: RE3Config,
    head_order: HeadOrder,
    conv_depth: int,
    neighbours: SequenceNeighbours = "stored_minibatch",
) -> IntrinsicReward:
    """The whole bonus: distance, normalisation, beta_t.

    Args:
      config: ranks and scale; `ring_size` must be that of the replay.
      head_order: as for `encoder_from`.
      conv_depth: likewise.
      neighbours: sought among the frames of the batch taken together, or among all stored.
    """
    encoder = encoder_from(config, head_order, conv_depth)
    return scaled(config, state_entropy(config, encoder, neighbours), "released_dreamer")
