"""Fingerprints of observations: hashes that detect copies identically on every processor.

An encoder may map two copies of one observation to latents that differ in their last bits: the
rounding of a convolution or a matrix product depends on the processor, the batch size and the
position in the batch. Integers do not round, so a hash of the observation itself distinguishes
copies from near neighbours. Two latents belong to one observation if their fingerprints are equal
*and* they lie within `COPY_TOLERANCE` of each other. The second condition makes hash collisions
harmless, and it separates the latents that a learned encoder computes for one observation at
different times.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Shaped, UInt32

COPY_TOLERANCE = 1e-4
"""Largest distance between two latents of one observation, relative to the norm of a latent.

Rounding moves a float32 latent by 1e-7 to 1e-5 of its norm.
"""


def of(observation: Shaped[Array, " batch *observation"]) -> UInt32[Array, " batch"]:
    """Hashes each observation of a batch to 32 bits, independent of backend and batch position.

    Two observations that differ in exactly one element never share a fingerprint; other distinct
    observations do with a probability of about 2^-32. 0.0 and -0.0 count as equal. Elements of 64
    bits count as float32, as the encoders see them, or by their lower 32 bits.
    """
    words = _words(observation.reshape(observation.shape[0], math.prod(observation.shape[1:])))
    words = (words ^ (words >> 16)) * np.uint32(0x7FEB352D)
    words = words ^ (words >> 15)
    # Odd factors: multiplication by an odd number modulo 2^32 keeps distinct words distinct.
    place = lax.iota(jnp.uint32, words.shape[1])
    factors = _mixed(place * np.uint32(0x9E3779B9) + np.uint32(0x85EBCA6B)) | np.uint32(1)
    return _mixed(jnp.sum(words * factors, axis=1, dtype=jnp.uint32))


def is_copy(
    same_fingerprint: Bool[Array, " *any"],
    squared_distance: Float[Array, " *any"],
    squared_norm: Float[Array, " *any"],
) -> Bool[Array, " *any"]:
    """Whether two latents belong to one observation.

    Args:
      same_fingerprint: whether the fingerprints of their observations are equal.
      squared_distance: between the latents.
      squared_norm: of either latent.
    """
    return same_fingerprint & (squared_distance <= COPY_TOLERANCE**2 * squared_norm)


def _words(flat: Shaped[Array, "batch elements"]) -> UInt32[Array, "batch elements"]:
    if jnp.issubdtype(flat.dtype, jnp.floating):
        single = flat.astype(jnp.float32)
        return lax.bitcast_convert_type(jnp.where(single == 0, 0.0, single), jnp.uint32)
    return flat.astype(jnp.uint32)


def _mixed(x: UInt32[Array, " *any"]) -> UInt32[Array, " *any"]:
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
