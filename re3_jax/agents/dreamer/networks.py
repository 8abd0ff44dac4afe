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
from re3_jax.networks import rssm
from re3_jax.networks.conv import conv2d, conv_transpose2d
from re3_jax.networks.rssm import RSSM

IMAGE_SIZE = 64
ENCODER_KERNEL, STRIDE = 4, 2
DECODER_KERNELS = (5, 5, 6, 6)
EMBEDDING_PIXELS = 2 * 2
"""What four convolutions leave of 64x64 pixels."""

HEAD_LAYERS = {"reward": 2, "discount": 3, "actor": 4, "value": 3}

Head = tuple[Layer, ...]
"""Linear layers with ELU between them."""

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

    encoder: tuple[Layer, ...]
    dynamics: RSSM
    decoder: Decoder
    reward: Head
    discount: Head | None


def init_model(key: PRNGKeyArray, config: DreamerConfig, action_dim: int, channels: int):
    """Draws a world model."""
    keys = jax.random.split(key, 5)
    depth = config.conv_depth
    encoder, embedding = encoder_shapes(channels, depth)
    filters = (32 * depth, 4 * depth, 2 * depth, depth, channels)
    decoder = [
        (size, size, *pair)
        for size, pair in zip(DECODER_KERNELS, zip(filters, filters[1:], strict=False), strict=True)
    ]
    features = config.deter + config.stoch
    hidden, *convs = initializers.layers("xavier", keys[2], [(features, filters[0]), *decoder])
    convs = [conv._replace(kernel=conv.kernel.swapaxes(2, 3)) for conv in convs]
    return WorldModel(
        encoder=tuple(initializers.layers("xavier", keys[0], encoder)),
        dynamics=rssm.init(
            keys[1],
            action_dim=action_dim,
            embedding_dim=embedding,
            deter=config.deter,
            stoch=config.stoch,
            hidden=config.hidden,
        ),
        decoder=Decoder(hidden, tuple(convs)),
        reward=init_head(keys[3], config, "reward", 1),
        discount=init_head(keys[4], config, "discount", 1) if config.predict_discount else None,
    )


def encoder_shapes(channels: int, depth: int) -> tuple[list[tuple[int, ...]], int]:
    """Shapes of the encoder's kernels, and the length of an embedding."""
    filters = (channels, depth, 2 * depth, 4 * depth, 8 * depth)
    kernels: list[tuple[int, ...]] = [
        (ENCODER_KERNEL, ENCODER_KERNEL, *pair) for pair in zip(filters, filters[1:], strict=False)
    ]
    return kernels, EMBEDDING_PIXELS * filters[-1]


def init_head(key: PRNGKeyArray, config: DreamerConfig, name: str, outputs: int) -> Head:
    """Draws one of `HEAD_LAYERS`."""
    widths = (config.deter + config.stoch, *[config.head_units] * HEAD_LAYERS[name], outputs)
    shapes = list(zip(widths, widths[1:], strict=False))
    return tuple(initializers.layers("xavier", key, shapes))


def preprocess(
    frames: UInt8[Array, "*batch 64 64 channels"],
) -> Float[Array, "*batch 64 64 channels"]:
    """Bytes to [-0.5, 0.5]."""
    return frames.astype(jnp.float32) / 255 - 0.5


def encode(
    encoder: tuple[Layer, ...], image: Float[Array, "batch 64 64 channels"]
) -> Float[Array, "batch embedding"]:
    """Embeddings of a batch of images; the filter is fastest."""
    x = image.astype(encoder[0].kernel.dtype)
    for layer in encoder:
        x = jax.nn.relu(conv2d(x, layer.kernel, layer.bias, STRIDE))
    return x.reshape(x.shape[0], -1).astype(jnp.float32)


def decode(
    decoder: Decoder, features: Float[Array, "batch features"]
) -> Float[Array, "batch 64 64 channels"]:
    """Means of the images' unit normal distributions."""
    features = features.astype(decoder.hidden.kernel.dtype)
    x = _linear(decoder.hidden, features)[:, None, None]
    *hidden, output = decoder.convs
    for layer in hidden:
        x = jax.nn.relu(conv_transpose2d(x, layer.kernel, layer.bias, STRIDE))
    return conv_transpose2d(x, output.kernel, output.bias, STRIDE).astype(jnp.float32)


def head(layers: Head, features: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
    """Outputs of a head."""
    x = features.astype(layers[0].kernel.dtype)
    for layer in layers[:-1]:
        x = jax.nn.elu(_linear(layer, x))
    return _linear(layers[-1], x).astype(jnp.float32)


def cast(layers: Layers, precision: Precision) -> Layers:
    """Layers whose kernels have another precision; their gradients come back in their own.

    Biases keep theirs: the gradient of one is a sum over all positions of all images.
    """
    return jax.tree.map(
        lambda layer: layer._replace(kernel=layer.kernel.astype(precision)),
        layers,
        is_leaf=lambda node: isinstance(node, Layer),
    )


def _linear(layer: Layer, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
    return (x @ layer.kernel + layer.bias).astype(x.dtype)


def scalar(layers: Head, features: Float[Array, "*batch features"]) -> Float[Array, "*batch"]:
    """The one output of a head."""
    return head(layers, features)[..., 0]
