"""Fingerprints of observations: what makes a copy a copy on every processor.

An encoder may give two copies of one observation latents that differ in their last bits: how a
convolution or a matrix product rounds depends on the processor, on the size of the batch and on
the place in it. Integers do not round, so a hash of the observation itself tells copies apart
from neighbours. Two latents are those of one observation if their fingerprints are equal *and*
they lie within `COPY_TOLERANCE` of each other. The second condition makes a collision of hashes
harmless, and keeps apart what a learned encoder made of one observation at different times.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Shaped, UInt32

COPY_TOLERANCE = 1e-4
"""Distance of two latents of one observation at most, as a part of the length of a latent.

Rounding moves a float32 latent by 1e-7 to 1e-5 of its length.
"""


def of(observation: Shaped[Array, " batch *observation"]) -> UInt32[Array, " batch"]:
    """32 bits of each observation of a batch, the same on every backend and at every place.

    Two observations that differ in one element never share a fingerprint; others do with a
    probability of about 2^-32. 0.0 and -0.0 are one number.

    Raises:
      TypeError: if elements have more than 32 bits.
    """
    words = _words(observation.reshape(observation.shape[0], math.prod(observation.shape[1:])))
    words = (words ^ (words >> 16)) * np.uint32(0x7FEB352D)
    words = words ^ (words >> 15)
    # Odd factors: times one of them no two words become equal.
    place = lax.iota(jnp.uint32, words.shape[1])
    factors = _mixed(place * np.uint32(0x9E3779B9) + np.uint32(0x85EBCA6B)) | np.uint32(1)
    return _mixed(jnp.sum(words * factors, axis=1, dtype=jnp.uint32))


def is_copy(
    same_fingerprint: Bool[Array, " *any"],
    squared_distance: Float[Array, " *any"],
    squared_norm: Float[Array, " *any"],
) -> Bool[Array, " *any"]:
    """Whether two latents are those of one observation.

    Args:
      same_fingerprint: of the observations.
      squared_distance: between the latents.
      squared_norm: of either latent.
    """
    return same_fingerprint & (squared_distance <= COPY_TOLERANCE**2 * squared_norm)


def _words(flat: Shaped[Array, "batch elements"]) -> UInt32[Array, "batch elements"]:
    if flat.dtype.itemsize > 4:
        raise TypeError(f"fingerprints are of elements of 32 bits at most, not of {flat.dtype}")
    if jnp.issubdtype(flat.dtype, jnp.floating):
        single = flat.astype(jnp.float32)
        return lax.bitcast_convert_type(jnp.where(single == 0, 0.0, single), jnp.uint32)
    return flat.astype(jnp.uint32)


def _mixed(x: UInt32[Array, " *any"]) -> UInt32[Array, " *any"]:
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
