"""Dreamer's networks: what is seen to an embedding and back, and the heads on a state.

Layers are initialised as Keras does by default: Glorot's uniform kernels, zero biases. What goes
in and comes out is float32; between, everything has the precision of the kernels.
"""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from re3_jax import initializers
from re3_jax.agents.dreamer.config import DreamerConfig, Precision
from re3_jax.initializers import Layer
from re3_jax.networks import conv_stack, mlp, rssm
from re3_jax.networks.conv import conv_transpose2d
from re3_jax.networks.conv_stack import ConvStack
from re3_jax.networks.mlp import MLP, linear
from re3_jax.networks.rssm import RSSM

IMAGE_SIZE = 64
DECODER_KERNELS, DECODER_STRIDE = (5, 5, 6, 6), 2

HEAD_LAYERS = {"reward": 2, "discount": 3, "actor": 4, "value": 3}

Layers = TypeVar("Layers")


class Decoder(NamedTuple):
    """A linear layer, and four transposed convolutions, their kernels as `conv_transpose2d`'s."""

    hidden: Layer
    convs: tuple[Layer, ...]


class WorldModel(NamedTuple):
    """What is learned from sequences.

    Attributes:
      encoder: four convolutions.
      dynamics: the recurrent state-space model.
      decoder: states to images.
      reward: states to rewards.
      discount: states to logits of the task going on, None where that is not predicted.
    """

    encoder: ConvStack
    dynamics: RSSM
    decoder: Decoder
    reward: MLP
    discount: MLP | None


def init_model(
    key: PRNGKeyArray, config: DreamerConfig, action_dim: int, channels: int
) -> WorldModel:
    """Draws a world model."""
    keys = jax.random.split(key, 5)
    depth = config.conv_depth
    convs, embedding = conv_stack.dreamer(depth), embedding_dim(depth)
    filters = (32 * depth, 4 * depth, 2 * depth, depth, channels)
    decoder = [
        (size, size, *pair)
        for size, pair in zip(DECODER_KERNELS, zip(filters, filters[1:], strict=False), strict=True)
    ]
    features = config.deter + config.stoch
    hidden, *transposed = initializers.layers("xavier", keys[2], [(features, filters[0]), *decoder])
    transposed = [conv._replace(kernel=conv.kernel.swapaxes(2, 3)) for conv in transposed]
    encoder = initializers.layers("xavier", keys[0], conv_stack.kernel_shapes(convs, channels))
    return WorldModel(
        encoder=conv_stack.of_layers(convs, encoder),
        dynamics=rssm.init(
            keys[1],
            action_dim=action_dim,
            embedding_dim=embedding,
            deter=config.deter,
            stoch=config.stoch,
            hidden=config.hidden,
        ),
        decoder=Decoder(hidden, tuple(transposed)),
        reward=init_head(keys[3], config, "reward", 1),
        discount=init_head(keys[4], config, "discount", 1) if config.predict_discount else None,
    )


def embedding_dim(depth: int) -> int:
    """Length of an embedding."""
    return conv_stack.flat_dim(conv_stack.dreamer(depth), IMAGE_SIZE, IMAGE_SIZE)


def init_head(key: PRNGKeyArray, config: DreamerConfig, name: str, outputs: int) -> MLP:
    """Draws one of `HEAD_LAYERS`."""
    widths = (config.deter + config.stoch, *[config.head_units] * HEAD_LAYERS[name], outputs)
    return tuple(initializers.layers("xavier", key, mlp.kernel_shapes(*widths)))


def preprocess(
    frames: UInt8[Array, "*batch 64 64 channels"],
) -> Float[Array, "*batch 64 64 channels"]:
    """Bytes to [-0.5, 0.5]."""
    return frames.astype(jnp.float32) / 255 - 0.5


def encode(
    encoder: ConvStack, image: Float[Array, "batch 64 64 channels"]
) -> Float[Array, "batch embedding"]:
    """Embeddings of a batch of images; the filter is fastest."""
    precision = encoder.layers[0].kernel.dtype
    return conv_stack.features(encoder, image.astype(precision)).astype(jnp.float32)


def decode(
    decoder: Decoder, features: Float[Array, "batch features"]
) -> Float[Array, "batch 64 64 channels"]:
    """Means of the images' unit normal distributions."""
    features = features.astype(decoder.hidden.kernel.dtype)
    x = linear(decoder.hidden, features)[:, None, None]
    *hidden, output = decoder.convs
    for layer in hidden:
        x = jax.nn.relu(conv_transpose2d(x, layer.kernel, layer.bias, DECODER_STRIDE))
    return conv_transpose2d(x, output.kernel, output.bias, DECODER_STRIDE).astype(jnp.float32)


def head(layers: MLP, features: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
    """Outputs of a head."""
    x = features.astype(layers[0].kernel.dtype)
    return mlp.mlp(layers, x, jax.nn.elu).astype(jnp.float32)


def cast(layers: Layers, precision: Precision) -> Layers:
    """Layers whose kernels have another precision; their gradients come back in their own.

    Biases keep theirs: the gradient of one is a sum over all positions of all images.
    """
    return jax.tree.map(
        lambda layer: layer._replace(kernel=layer.kernel.astype(precision)),
        layers,
        is_leaf=lambda node: isinstance(node, Layer),
    )


def scalar(layers: MLP, features: Float[Array, "*batch features"]) -> Float[Array, "*batch"]:
    """The one output of a head."""
    return head(layers, features)[..., 0]
