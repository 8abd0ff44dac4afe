"""The input arrays of a search, and which rows of a ring count."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

from re3_jax.replay.distinct_ring import DistinctRing
from re3_jax.replay.latent_ring import LatentRing

Ring = LatentRing | DistinctRing
"""The rings that a search accepts."""


class Queries(NamedTuple):
    """The latents to find neighbours of.

    Attributes:
      latents: float32.
      fingerprints: of their observations; None if the search compares latents only.
      scalars: a number beside each latent; None if there is none. A distance is then the larger of
        the latents' and of the gap between the numbers.
    """

    latents: Float[Array, "batch latent"]
    fingerprints: UInt32[Array, " batch"] | None
    scalars: Float[Array, " batch"] | None = None


class Rows(NamedTuple):
    """The rows to search.

    Attributes:
      latents: float32.
      squared_norms: |y|^2 of each row, also of rows that hold no latent.
      fingerprints: of their observations; None if the search compares latents only.
      copies: for a `DistinctRing`, the number of neighbours that each row counts as; 0 if it holds
        no latent.
      num_valid: for a `LatentRing`, where each row is one neighbour: rows from this one on hold no
        latent.
      scalars: a number beside each latent, as of the queries.
      scale: what a gap between two of them is multiplied by.
    """

    latents: Float[Array, "capacity latent"]
    squared_norms: Float[Array, " capacity"]
    fingerprints: UInt32[Array, " capacity"] | None
    copies: Int[Array, " capacity"] | None
    num_valid: Int[Array, ""] | None
    scalars: Float[Array, " capacity"] | None = None
    scale: Float[Array, ""] | None = None


def rows_of(ring: Ring, with_fingerprints: bool) -> tuple[Rows, Int[Array, ""]]:
    """The rows of a ring, and the size of a prefix that includes all rows with a latent."""
    fingerprints = ring.fingerprints if with_fingerprints else None
    if isinstance(ring, DistinctRing):
        rows = Rows(ring.latents, ring.squared_norms, fingerprints, ring.copies, None)
        return rows, ring.num_rows
    rows = Rows(ring.latents, ring.squared_norms, fingerprints, None, ring.num_valid)
    return rows, ring.num_valid


def valid_at(rows: Rows, place: Int[Array, " *any"]) -> Bool[Array, " *any"]:
    """Whether the rows at these places hold a latent."""
    if rows.copies is not None:
        return rows.copies.at[place].get(mode="promise_in_bounds") > 0
    assert rows.num_valid is not None
    return place < rows.num_valid


def valid_in(rows: Rows, start: int | Int[Array, ""], size: int) -> Bool[Array, " size"]:
    """Whether each of `size` rows from `start` on holds a latent."""
    if rows.copies is not None:
        return lax.dynamic_slice_in_dim(rows.copies, start, size) > 0
    assert rows.num_valid is not None
    return start + jnp.arange(size) < rows.num_valid


def gap_between(
    one: Float[Array, "*any"], other: Float[Array, "*any"], scale: Float[Array, ""]
) -> Float[Array, "*any"]:
    """|v_i - v_j| times the scale.

    Scaling the scalars first would be wrong: XLA fuses product and difference into one operation
    with one rounding, so that equal scalars would have a gap.
    """
    return jnp.abs(one - other) * scale
