"""Images to embeddings, and how well states explain them, a part of the batch at a time.

All of a batch's layers at once would take several gigabytes.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from re3_jax.agents.dreamer import networks
from re3_jax.agents.dreamer.config import Precision
from re3_jax.agents.dreamer.networks import Decoder
from re3_jax.initializers import Layer

IMAGES_AT_ONCE = 250
"""What is encoded or decoded together."""


def embed(
    encoder: tuple[Layer, ...],
    frames: UInt8[Array, "batch 64 64 channels"],
    precision: Precision = "float32",
) -> Float[Array, "batch embedding"]:
    """`networks.encode` with layers of `precision`, a part of the batch at a time."""

    def encode(part):
        # Here, so that the gradients of the parts are added up as float32.
        return networks.encode(networks.cast(encoder, precision), networks.preprocess(part))

    return jax.lax.map(encode, _parts(frames)).reshape(len(frames), -1)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def image_loss(
    precision: Precision,
    decoder: Decoder,
    features: Float[Array, "batch features"],
    frames: UInt8[Array, "batch 64 64 channels"],
) -> Float[Array, ""]:
    """Mean negative log-likelihood under unit normals, less its constant (Dreamer, Eq. 13).

    Where a gradient is asked for it is computed with the loss, so that no layer's output
    outlives its part of the batch. Frames have none.
    """
    parts = _parts((features, frames))
    return jnp.mean(jax.lax.map(lambda part: _loss(precision, decoder, *part), parts))


def _loss(precision: Precision, decoder: Decoder, features, frames):
    decoded = networks.decode(networks.cast(decoder, precision), features)
    error = decoded - networks.preprocess(frames)
    return 0.5 * jnp.sum(error**2) / len(frames)


def part_size(number: int, most: int) -> int:
    """The largest part, of `most` or fewer, into which so many can be divided evenly."""
    return max(n for n in range(1, most + 1) if number % n == 0)


def _parts(batch):
    """Leaves [batch, ...] as [part, images, ...]."""
    images = part_size(len(jax.tree.leaves(batch)[0]), IMAGES_AT_ONCE)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, images, *leaf.shape[1:]), batch)


def _forward(precision: Precision, decoder: Decoder, features, frames):
    parts = _parts((features, frames))
    loss_and_gradients = jax.value_and_grad(partial(_loss, precision), (0, 1))

    def add(total, part):
        loss, (d_decoder, d_features) = loss_and_gradients(decoder, *part)
        return jax.tree.map(jnp.add, total, (loss, d_decoder)), d_features

    zeros = jnp.float32(0), jax.tree.map(jnp.zeros_like, decoder)
    (loss, d_decoder), d_features = jax.lax.scan(add, zeros, parts)
    gradients = d_decoder, d_features.reshape(features.shape)
    number = len(parts[0])
    return loss / number, jax.tree.map(lambda g: g / number, gradients)


def _backward(precision: Precision, gradients, d_loss):
    del precision
    return *jax.tree.map(lambda g: d_loss * g, gradients), None


image_loss.defvjp(_forward, _backward)
