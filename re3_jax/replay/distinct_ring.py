"""A ring of latents that stores those of equal observations once, with their number.

Few of the newest observations of a gridworld differ: of 10,000 views of DoorKey-8x8 under a
random policy about 800, of Empty-16x16 about 100. A search need not look at a copy twice. It
finds exactly what it would find in a `latent_ring`, in a fraction of the time; where nothing
repeats itself, use that one. What a copy is `fingerprint` says, on every processor the same.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from re3_jax import fingerprint
from re3_jax.replay.latent_ring import check_batch, check_size

NUM_PROBES = 4
"""Neighbouring buckets in which a row may be noted."""

BUCKETS_PER_ROW = 2


class DistinctRing(NamedTuple):
    """First-in-first-out store of `capacity` latents, in as many rows as there are distinct ones.

    Two equal latents may come to have a row each, which costs time only: copies are counted by
    row. A row with 0 copies is free: it holds no latent, whatever its other arrays contain.

    Attributes:
      latents: float32 rows.
      squared_norms: |y|^2 of each row.
      copies: how many of the latents stored are that row.
      row_of: for each place in the ring the row of its latent, -1 where none is stored yet.
      fingerprints: of the observation that each row is the latent of.
      buckets: rows by fingerprint, -1 for none; a note that no longer holds is recognised.
      free_rows: a stack of the rows without copies, its first `num_free` entries.
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
      ValueError: if either is not positive.
    """
    check_size(capacity, latent_dim)
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
    """Rows of `ring.latents` of the latents at places that `add` returned."""
    return ring.row_of.at[index].get(mode="promise_in_bounds")


def add(
    ring: DistinctRing,
    latents: Float[Array, "batch latent"],
    fingerprints: UInt32[Array, " batch"] | None = None,
) -> tuple[DistinctRing, Int[Array, " batch"]]:
    """Stores a batch in place of the oldest latents; also returns the places written.

    Of copies the latent that was stored first stays.

    Args:
      ring: is not used again.
      latents: one a place.
      fingerprints: of the observations, `fingerprint.of`; None for those of the latents
        themselves.

    Raises:
      ValueError: if the batch has more latents than the ring has places.
    """
    capacity, batch_size = ring.latents.shape[0], latents.shape[0]
    check_batch(batch_size, capacity)
    place = jnp.arange(batch_size, dtype=jnp.int32)
    index = (ring.cursor + place) % capacity
    hashes = fingerprint.of(latents) if fingerprints is None else fingerprints
    norms = jnp.sum(latents * latents, axis=1)
    twin = _first_copy(latents, norms, hashes)
    # All follow the first of them: what is a copy of a copy may be no copy by its own rounding.
    found = _find(ring, latents, norms, hashes)[twin]

    overwritten = ring.row_of.at[index].get(mode="promise_in_bounds")
    copies = ring.copies.at[_only(found >= 0, found, capacity)].add(1, mode="drop")
    copies = copies.at[_only(overwritten >= 0, overwritten, capacity)].add(-1, mode="drop")
    is_first = _first(overwritten) == place
    emptied = is_first & (overwritten >= 0)
    emptied &= copies.at[overwritten].get(mode="clip") == 0

    # Freed rows go on the stack before new ones are taken off it: the rows in use stay few.
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
    """The index where the condition holds, elsewhere one that `mode="drop"` drops."""
    return jnp.where(condition, index, capacity)


def _probes(ring: DistinctRing, hashes: UInt32[Array, " batch"]) -> Int[Array, "batch probe"]:
    """The buckets that belong to a hash."""
    steps = jnp.arange(NUM_PROBES, dtype=jnp.uint32)
    return ((hashes[:, None] + steps) & np.uint32(len(ring.buckets) - 1)).astype(jnp.int32)


def _find(ring: DistinctRing, latents, norms, hashes) -> Int[Array, " batch"]:
    """The row that holds a copy of each latent already, -1 if none is known."""
    noted = ring.buckets.at[_probes(ring, hashes)].get(mode="promise_in_bounds")
    same = (noted >= 0) & (ring.fingerprints.at[noted].get(mode="clip") == hashes[:, None])
    same &= ring.copies.at[noted].get(mode="clip") > 0
    away = jnp.sum((ring.latents.at[noted].get(mode="clip") - latents[:, None]) ** 2, axis=2)
    fits = fingerprint.is_copy(same, away, norms[:, None])
    return jnp.max(jnp.where(fits, noted, -1), axis=1)


def _first(values: Int[Array, " batch"]) -> Int[Array, " batch"]:
    """For each value the first place in the batch that has it."""
    return jnp.argmax(values[:, None] == values, axis=1).astype(jnp.int32)


def _first_copy(latents, norms, hashes) -> Int[Array, " batch"]:
    """For each latent the place in the batch of its first copy; its own where a hash lies."""
    first = _first(hashes)
    away = jnp.sum((latents[first] - latents) ** 2, axis=1)
    is_copy = fingerprint.is_copy(hashes[first] == hashes, away, norms)
    return jnp.where(is_copy, first, jnp.arange(len(first), dtype=jnp.int32))


def _note(
    ring: DistinctRing, copies, hashes, is_new: Bool[Array, " batch"], rows
) -> Int[Array, " buckets"]:
    """Notes new rows in the first of their buckets that is free, else over the first of all.

    A row whose note is lost is not found again; the next copy of it begins a new one.
    """
    probes = _probes(ring, hashes)
    noted = ring.buckets.at[probes].get(mode="promise_in_bounds")
    is_free = (noted < 0) | (copies.at[noted].get(mode="clip") == 0)
    # A row that was reused for another latent has left its note behind.
    steps = probes.astype(jnp.uint32) - ring.fingerprints.at[noted].get(mode="clip")
    is_free |= (steps & np.uint32(len(ring.buckets) - 1)) >= NUM_PROBES
    chosen = jnp.take_along_axis(probes, jnp.argmax(is_free, axis=1)[:, None], axis=1)[:, 0]
    chosen = _only(is_new, chosen, len(ring.buckets))
    # Cleared first: two rows may choose one bucket, and the larger must win on every device.
    return ring.buckets.at[chosen].set(-1, mode="drop").at[chosen].max(rows, mode="drop")
