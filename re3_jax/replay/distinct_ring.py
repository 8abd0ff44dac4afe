"""A ring of latents that stores the latents of equal observations once, with a count.

Observations of a gridworld repeat: under a random policy, 10,000 views hold about 800 distinct ones
in DoorKey-8x8 and about 100 in Empty-16x16. A search of this ring compares each of them once. It
finds exactly the neighbours that it would find in a `latent_ring`, in a fraction of the time. Where
observations do not repeat, use `latent_ring`. `fingerprint` defines copies, the same on every
processor.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from re3_jax import fingerprint
from re3_jax.repeats import first_places
from re3_jax.replay.latent_ring import check_batch, check_size, measurable

NUM_PROBES = 4
"""Number of neighbouring buckets that may refer to a row."""

BUCKETS_PER_ROW = 2

MOST_ROWS = 2**30 // BUCKETS_PER_ROW
"""The table has a power of two of buckets, and int32 counts them."""


class DistinctRing(NamedTuple):
    """First-in-first-out store of `capacity` latents, with one row per distinct latent.

    Equal latents may end up in separate rows. This costs time only, because each row counts its own
    copies. A row with 0 copies is free: it holds no latent, whatever its other arrays contain.

    Attributes:
      latents: float32 rows.
      squared_norms: |y|^2 of each row.
      copies: number of stored latents that each row stands for.
      row_of: for each place in the ring, the row of its latent; -1 before one is stored.
      fingerprints: of the observation behind each row.
      buckets: hash table from fingerprints to rows, -1 for none; a lookup detects stale entries.
      free_rows: stack of the rows without copies; only its first `num_free` entries count.
      num_free: height of that stack.
      num_rows: rows at or past it were never used.
      cursor: place that the next insertion writes first.
      num_valid: number of latents stored, at most the capacity.
    """

    latents: Float[Array, "capacity latent"]
    squared_norms: Float[Array, " capacity"]
    copies: Int[Array, " capacity"]
    row_of: Int[Array, " capacity"]
    fingerprints: UInt32[Array, " capacity"]
    buckets: Int[Array, " buckets"]
    free_rows: Int[Array, " capacity"]
    num_free: Int[Array, ""]
    num_rows: Int[Array, ""]
    cursor: Int[Array, ""]
    num_valid: Int[Array, ""]


def init(capacity: int, latent_dim: int) -> DistinctRing:
    """An empty ring of `capacity` latents of `latent_dim` float32.

    Raises:
      ValueError: if either is not positive, or the ring is too large for a table of copies.
    """
    check_size(capacity, latent_dim)
    if capacity > MOST_ROWS:
        raise ValueError(
            f"a ring of {capacity} rows is too large to merge copies: at most {MOST_ROWS} fit a "
            "table that 32-bit numbers count, so lower ring_size or set merge_copies to false"
        )
    num_buckets = 1 << (BUCKETS_PER_ROW * capacity - 1).bit_length()
    return DistinctRing(
        latents=jnp.zeros((capacity, latent_dim), jnp.float32),
        squared_norms=jnp.zeros(capacity, jnp.float32),
        copies=jnp.zeros(capacity, jnp.int32),
        row_of=jnp.full(capacity, -1, jnp.int32),
        fingerprints=jnp.zeros(capacity, jnp.uint32),
        buckets=jnp.full(num_buckets, -1, jnp.int32),
        free_rows=jnp.arange(capacity, dtype=jnp.int32)[::-1],
        num_free=jnp.full((), capacity, jnp.int32),
        num_rows=jnp.zeros((), jnp.int32),
        cursor=jnp.zeros((), jnp.int32),
        num_valid=jnp.zeros((), jnp.int32),
    )


def row_at(ring: DistinctRing, index: Int[Array, " batch"]) -> Int[Array, " batch"]:
    """Rows of `ring.latents` that hold the latents of places that `add` returned."""
    return ring.row_of.at[index].get(mode="promise_in_bounds")


def add(
    ring: DistinctRing,
    latents: Float[Array, "batch latent"],
    fingerprints: UInt32[Array, " batch"] | None = None,
) -> tuple[DistinctRing, Int[Array, " batch"]]:
    """Stores a batch in place of the oldest latents; also returns the places written.

    Copies share the latent that was stored first.

    Args:
      ring: updated in place by XLA if the caller does not use it again.
      latents: one per place; `latent_ring.FAR` replaces those that are NaN or infinite.
      fingerprints: `fingerprint.of` the observations; with None, of the latents themselves.

    Example:
      >>> import jax.numpy as jnp
      >>> from re3_jax.replay import distinct_ring
      >>> ring = distinct_ring.init(capacity=8, latent_dim=2)
      >>> ring, place = distinct_ring.add(ring, jnp.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
      >>> rows = distinct_ring.row_at(ring, place)
      >>> place.tolist(), rows.tolist(), ring.copies[rows].tolist()
      ([0, 1, 2], [0, 1, 0], [2, 1, 2])

    Raises:
      ValueError: if the batch has more latents than the ring has places, or of another length.
    """
    capacity, batch_size = ring.latents.shape[0], latents.shape[0]
    check_batch(latents, *ring.latents.shape)
    place = jnp.arange(batch_size, dtype=jnp.int32)
    if not batch_size:
        return ring, place
    index = (ring.cursor + place) % capacity
    hashes = fingerprint.of(latents) if fingerprints is None else fingerprints
    latents, norms = measurable(latents)
    # A latent that is `FAR` is no copy of any, however large its tolerance.
    scale = jnp.where(jnp.isfinite(norms), norms, 0.0)
    twin = _first_copy(latents, scale, hashes)
    # All copies follow the first of them: by rounding, a copy of a copy may exceed the tolerance.
    found = _find(ring, latents, scale, hashes)[twin]

    overwritten = ring.row_of.at[index].get(mode="promise_in_bounds")
    copies = ring.copies.at[_only(found >= 0, found, capacity)].add(1, mode="drop")
    copies = copies.at[_only(overwritten >= 0, overwritten, capacity)].add(-1, mode="drop")
    is_first = first_places(overwritten) == place
    emptied = is_first & (overwritten >= 0)
    emptied &= copies.at[overwritten].get(mode="clip") == 0

    # Push freed rows before popping new ones, so that few rows are in use.
    where = ring.num_free + jnp.cumsum(emptied) - 1
    free_rows = ring.free_rows.at[_only(emptied, where, capacity)].set(overwritten, mode="drop")
    num_free = ring.num_free + jnp.sum(emptied, dtype=jnp.int32)
    is_new = (found < 0) & (twin == place)
    taken = free_rows.at[num_free - jnp.cumsum(is_new)].get(mode="clip")
    rows = jnp.where(found < 0, taken[twin], found)
    written = _only(is_new, rows, capacity)

    stored = ring._replace(
        latents=ring.latents.at[written].set(latents, mode="drop"),
        squared_norms=ring.squared_norms.at[written].set(norms, mode="drop"),
        copies=copies.at[_only(found < 0, rows, capacity)].add(1, mode="drop"),
        row_of=ring.row_of.at[index].set(rows, unique_indices=True, mode="promise_in_bounds"),
        fingerprints=ring.fingerprints.at[written].set(hashes, mode="drop"),
        buckets=_note(ring, copies, hashes, is_new, rows),
        free_rows=free_rows,
        num_free=num_free - jnp.sum(is_new, dtype=jnp.int32),
        num_rows=jnp.maximum(ring.num_rows, jnp.max(rows) + 1),
        cursor=(ring.cursor + batch_size) % capacity,
        num_valid=jnp.minimum(ring.num_valid + batch_size, capacity),
    )
    return stored, index


def _only(condition, index, capacity: int):
    """The index where the condition holds, elsewhere an index that `mode="drop"` drops."""
    return jnp.where(condition, index, capacity)


def _probes(ring: DistinctRing, hashes: UInt32[Array, " batch"]) -> Int[Array, "batch probe"]:
    """The buckets that belong to a hash."""
    steps = jnp.arange(NUM_PROBES, dtype=jnp.uint32)
    return ((hashes[:, None] + steps) & np.uint32(len(ring.buckets) - 1)).astype(jnp.int32)


def _find(ring: DistinctRing, latents, norms, hashes) -> Int[Array, " batch"]:
    """For each latent, the row that already holds a copy; -1 if the table knows none."""
    noted = ring.buckets.at[_probes(ring, hashes)].get(mode="promise_in_bounds")
    same = (noted >= 0) & (ring.fingerprints.at[noted].get(mode="clip") == hashes[:, None])
    same &= ring.copies.at[noted].get(mode="clip") > 0
    away = jnp.sum((ring.latents.at[noted].get(mode="clip") - latents[:, None]) ** 2, axis=2)
    fits = fingerprint.is_copy(same, away, norms[:, None])
    return jnp.max(jnp.where(fits, noted, -1), axis=1)


def _first_copy(latents, norms, hashes) -> Int[Array, " batch"]:
    """For each latent, the batch place of its first copy; its own place on a hash collision."""
    first = first_places(hashes)
    away = jnp.sum((latents[first] - latents) ** 2, axis=1)
    is_copy = fingerprint.is_copy(hashes[first] == hashes, away, norms)
    return jnp.where(is_copy, first, jnp.arange(len(first), dtype=jnp.int32))


def _note(
    ring: DistinctRing, copies, hashes, is_new: Bool[Array, " batch"], rows
) -> Int[Array, " buckets"]:
    """Enters new rows in their first free bucket, or else overwrites their first bucket.

    A row whose entry is overwritten is not found again; its next copy starts a new row.
    """
    probes = _probes(ring, hashes)
    noted = ring.buckets.at[probes].get(mode="promise_in_bounds")
    is_free = (noted < 0) | (copies.at[noted].get(mode="clip") == 0)
    # The old entry of a row that now holds another latent is free, too.
    steps = probes.astype(jnp.uint32) - ring.fingerprints.at[noted].get(mode="clip")
    is_free |= (steps & np.uint32(len(ring.buckets) - 1)) >= NUM_PROBES
    chosen = jnp.take_along_axis(probes, jnp.argmax(is_free, axis=1)[:, None], axis=1)[:, 0]
    chosen = _only(is_new, chosen, len(ring.buckets))
    # Clear, then take the maximum: if two rows choose one bucket, the larger wins on every device.
    return ring.buckets.at[chosen].set(-1, mode="drop").at[chosen].max(rows, mode="drop")
