"""Images to embeddings, and how well states explain them, a part of the batch at a time.

All of a batch's layers at once would take several gigabytes.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from re3_jax.agents.dreamer import networks
from re3_jax.agents.dreamer.networks import Decoder
from re3_jax.initializers import Layer

IMAGES_AT_ONCE = 250
"""What is encoded or decoded together."""


def embed(
    encoder: tuple[Layer, ...], frames: UInt8[Array, "batch 64 64 channels"]
) -> Float[Array, "batch embedding"]:
    """`networks.encode`, a part of the batch at a time."""
    embedding = jax.lax.map(
        lambda part: networks.encode(encoder, networks.preprocess(part)), _parts(frames)
    )
    return embedding.reshape(len(frames), -1)


@jax.custom_vjp
def image_loss(
    decoder: Decoder,
    features: Float[Array, "batch features"],
    frames: UInt8[Array, "batch 64 64 channels"],
) -> Float[Array, ""]:
    """Mean negative log-likelihood under unit normals, less its constant (Dreamer, Eq. 13).

    Where a gradient is asked for it is computed with the loss, so that no layer's output
    outlives its part of the batch. Frames have none.
    """
    parts = _parts((features, frames))
    return jnp.mean(jax.lax.map(lambda part: _loss(decoder, *part), parts))


def _loss(decoder: Decoder, features, frames):
    error = networks.decode(decoder, features) - networks.preprocess(frames)
    return 0.5 * jnp.sum(error**2) / len(frames)


def _parts(batch):
    """Leaves [batch, ...] as [part, images, ...]."""
    size = len(jax.tree.leaves(batch)[0])
    images = max(n for n in range(1, IMAGES_AT_ONCE + 1) if size % n == 0)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, images, *leaf.shape[1:]), batch)


def _forward(decoder: Decoder, features, frames):
    parts = _parts((features, frames))

    def add(total, part):
        loss, (d_decoder, d_features) = jax.value_and_grad(_loss, (0, 1))(decoder, *part)
        return jax.tree.map(jnp.add, total, (loss, d_decoder)), d_features

    zeros = jnp.float32(0), jax.tree.map(jnp.zeros_like, decoder)
    (loss, d_decoder), d_features = jax.lax.scan(add, zeros, parts)
    gradients = d_decoder, d_features.reshape(features.shape)
    number = len(parts[0])
    return loss / number, jax.tree.map(lambda g: g / number, gradients)


def _backward(gradients, d_loss):
    return *jax.tree.map(lambda g: d_loss * g, gradients), None


image_loss.defvjp(_forward, _backward)
