"""How many different screens a run has seen: a measure of exploration where states have no number.

Screens are told apart as Go-Explore's cells are (Ecoffet et al., 2019): shrunk to a few blocks of
a few shades of grey, so that what only flickers or moves by a pixel is no new screen. Seen ones
are marked in a table by their hash; two that share a place count as one, which is rare while few of
its places are taken.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

PLACES = 1 << 20
BLOCKS = 12
SHADES = 8

_WEIGHTS = np.random.default_rng(0).integers(0, 2**32, BLOCKS * BLOCKS, np.uint32) | 1


def none_seen() -> Bool[Array, " place"]:
    """An empty table."""
    return jnp.zeros(PLACES, bool)


def see(
    table: Bool[Array, " place"], frames: UInt8[Array, "lane height width"]
) -> Bool[Array, " place"]:
    """Marks the screens of grey frames."""
    return table.at[place_of(frames)].set(True, mode="promise_in_bounds")


def count(table: Bool[Array, " place"]) -> Int[Array, ""]:
    """Different screens seen."""
    return jnp.sum(table, dtype=jnp.int32)


def place_of(frames: UInt8[Array, "lane height width"]) -> Int[Array, " lane"]:
    """Place of each frame's screen in the table."""
    blocks = shrink(frames).reshape(frames.shape[0], -1).astype(jnp.uint32)
    hashed = jnp.sum((blocks + 1) * _WEIGHTS, axis=1, dtype=jnp.uint32)
    # The top bits of a product depend on all bits below.
    return ((hashed * jnp.uint32(2654435761)) >> jnp.uint32(12)).astype(jnp.int32)


def shrink(frames: UInt8[Array, "lane height width"]) -> UInt8[Array, "lane rows columns"]:
    """Shades of 12x12 blocks; rows and columns beyond a whole number of blocks are left out."""
    lanes, height, width = frames.shape
    rows, columns = height // BLOCKS, width // BLOCKS
    whole = frames[:, : rows * BLOCKS, : columns * BLOCKS].astype(jnp.float32)
    means = whole.reshape(lanes, BLOCKS, rows, BLOCKS, columns).mean(axis=(2, 4))
    return (means * (SHADES / 256)).astype(jnp.uint8)
