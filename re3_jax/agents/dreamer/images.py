"""Images to embeddings, and how well states explain them.

Both take the batch in parts (`re3_jax.cpu.parts`): all of its layers at once would take several
gigabytes.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from re3_jax.agents.dreamer import networks
from re3_jax.agents.dreamer.config import Precision
from re3_jax.agents.dreamer.networks import Decoder
from re3_jax.cpu.parts import map_parts, mean_loss
from re3_jax.networks.conv_stack import ConvStack


def embed(
    encoder: ConvStack,
    frames: UInt8[Array, "batch 64 64 channels"],
    precision: Precision = "float32",
) -> Float[Array, "batch embedding"]:
    """`networks.encode` with layers of `precision`."""

    def encode(part):
        # Here, so that the gradients of the parts are added up as float32.
        return networks.encode(networks.cast(encoder, precision), networks.preprocess(part))

    return map_parts(encode, frames)


def image_loss(
    precision: Precision,
    decoder: Decoder,
    features: Float[Array, "batch features"],
    frames: UInt8[Array, "batch 64 64 channels"],
) -> Float[Array, ""]:
    """Mean negative log-likelihood under unit normals, less its constant (Dreamer, Eq. 13).

    Has first derivatives in reverse mode with respect to the decoder and the features.
    """

    def loss(decoder: Decoder, features, frames):
        decoded = networks.decode(networks.cast(decoder, precision), features)
        error = decoded - networks.preprocess(frames)
        return 0.5 * jnp.sum(error**2) / len(frames)

    return mean_loss(loss, decoder, features, frames)
