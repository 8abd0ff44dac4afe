"""A ring of latents whose rows are divided among devices, for a ring that is too large for one.

All functions run inside `shard_map` over the mesh axis `AXIS`; without it they raise a NameError.
Each device holds a slice of as many rows as every other, in the order of the devices. Whatever is
not a row is the same on all devices, and so are the arguments. The slices together equal the rows
of a `latent_ring` that stored the same, bit for bit.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

from re3_jax.replay.latent_ring import LatentRing, check_batch, measurable
from re3_jax.replay.latent_ring import init as init_slice

AXIS = "ring"
"""The mesh axis over which the rows are divided."""


class ShardedRing(NamedTuple):
    """The fields of a `LatentRing`: on each device its slice of the rows.

    Attributes:
      latents: float32 rows.
      squared_norms: |y_i|^2 of each row.
      fingerprints: of the observation behind each row, see `fingerprint`.
      cursor: row, counted through all slices, that the next insertion writes first.
      num_valid: number of rows written so far in all slices.
    """

    latents: Float[Array, "capacity latent"]
    squared_norms: Float[Array, " capacity"]
    fingerprints: UInt32[Array, " capacity"]
    cursor: Int[Array, ""]
    num_valid: Int[Array, ""]


ROW_AXES = (-2, -1, -1, None, None)
"""For each field the axis of its rows; None where it has none."""


def init(capacity: int, latent_dim: int) -> ShardedRing:
    """An empty ring of `capacity` rows of `latent_dim` float32, over all devices.

    Raises:
      ValueError: if either is not positive, or the rows cannot be divided evenly.
    """
    shards = lax.axis_size(AXIS)
    if capacity % shards:
        raise ValueError(
            f"a ring of {capacity} rows cannot be divided evenly among {shards} devices: choose "
            f"a multiple of {shards}"
        )
    return ShardedRing(*init_slice(capacity // shards, latent_dim))


def row_at(ring: ShardedRing, index: Int[Array, " batch"]) -> Int[Array, " batch"]:
    """Rows, counted through all slices, of places that `add` returned: the places themselves."""
    del ring
    return index


def add(
    ring: ShardedRing,
    latents: Float[Array, "batch latent"],
    fingerprints: UInt32[Array, " batch"],
) -> tuple[ShardedRing, Int[Array, " batch"]]:
    """Writes a batch over the oldest rows; also returns the rows that were written.

    Each device writes the rows of its slice. Nothing is exchanged.

    Args:
      ring: updated in place by XLA if the caller does not use it again.
      latents: one row each; `latent_ring.FAR` replaces those that are NaN or infinite.
      fingerprints: `fingerprint.of` the observations.

    Raises:
      ValueError: if the batch has more rows than the ring, or latents of another length.
    """
    slice_rows, batch_size = ring.latents.shape[0], latents.shape[0]
    capacity = slice_rows * lax.axis_size(AXIS)
    check_batch(latents, capacity, ring.latents.shape[1])
    place = jnp.arange(batch_size, dtype=jnp.int32)
    index = (ring.cursor + place) % capacity
    row, is_own = _in_slice(ring, index)
    # Past the end, each in a place of its own: unique indices let XLA write in any order.
    row = jnp.where(is_own, row, slice_rows + place)
    latents, norms = measurable(latents)

    def write(rows: Array, values: Array) -> Array:
        return rows.at[row].set(values, unique_indices=True, mode="drop")

    return (
        ShardedRing(
            latents=write(ring.latents, latents),
            squared_norms=write(ring.squared_norms, norms),
            fingerprints=write(ring.fingerprints, fingerprints),
            cursor=(ring.cursor + batch_size) % capacity,
            num_valid=jnp.minimum(ring.num_valid + batch_size, capacity),
        ),
        index,
    )


def take(
    ring: ShardedRing, row: Int[Array, " batch"]
) -> tuple[Float[Array, "batch latent"], UInt32[Array, " batch"]]:
    """Latents and fingerprints of rows counted through all slices; every device gets all of them.

    One all-reduce of as many numbers: of integers, so that every bit of a latent arrives.
    """
    own_row, is_own = _in_slice(ring, row)
    own_row = jnp.where(is_own, own_row, 0)
    latents = ring.latents.at[own_row].get(mode="promise_in_bounds")
    fingerprints = ring.fingerprints.at[own_row].get(mode="promise_in_bounds")
    bits = lax.bitcast_convert_type(latents, jnp.uint32)
    bits = jnp.concatenate([bits, fingerprints[:, None]], axis=1)
    bits = lax.psum(jnp.where(is_own[:, None], bits, 0), AXIS)
    return lax.bitcast_convert_type(bits[:, :-1], jnp.float32), bits[:, -1]


def own_slice(ring: ShardedRing) -> LatentRing:
    """The slice of this device as a ring of its own, for `knn` with `axis_name=AXIS`."""
    slice_rows = ring.latents.shape[0]
    before = lax.axis_index(AXIS) * slice_rows
    return LatentRing(*ring)._replace(num_valid=jnp.clip(ring.num_valid - before, 0, slice_rows))


def _in_slice(
    ring: ShardedRing, row: Int[Array, " batch"]
) -> tuple[Int[Array, " batch"], Bool[Array, " batch"]]:
    """Rows counted from the beginning of this device's slice, and whether they are in it."""
    slice_rows = ring.latents.shape[0]
    own_row = row - lax.axis_index(AXIS) * slice_rows
    return own_row, (own_row >= 0) & (own_row < slice_rows)
