"""Where a state-entropy bonus finds its neighbours: among stored latents, or within a batch.

All functions are for the latents of one encoder; an ensemble maps them over its members.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from re3_jax import batch_split, knn
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.repeats import once_each
from re3_jax.replay import distinct_ring, latent_ring, sharded_ring
from re3_jax.replay.distinct_ring import DistinctRing
from re3_jax.replay.latent_ring import LatentRing
from re3_jax.replay.sharded_ring import ShardedRing

Ring = knn.Ring | ShardedRing

Nearest = tuple[Float[Array, "batch rank"], Float[Array, " batch"]]
"""Distances to the neighbours of ranks 1..last, and their mean over ranks first..last."""

_FUNCTIONS_OF: dict[type, Any] = {
    LatentRing: latent_ring,
    DistinctRing: distinct_ring,
    ShardedRing: sharded_ring,
}


class StoredLatents(NamedTuple):
    """One ring of latents, or two where only the newest are searched.

    Attributes:
      ring: all latents that are kept.
      newest: the newest `search_size` of them, the only ones searched; None if all are searched.
    """

    ring: Ring
    newest: Ring | None


def init(config: RE3Config, latent_dim: int, *, is_searched: bool = True) -> StoredLatents:
    """Empty rings for latents of `latent_dim` float32.

    Args:
      config: sizes, and how the searched latents are stored.
      latent_dim: length of a latent.
      is_searched: False for latents that are only read by place.
    """
    if not is_searched:
        return StoredLatents(latent_ring.init(config.ring_size, latent_dim), None)
    whole: Any = sharded_ring if config.ring_shards > 1 else latent_ring
    searched: Any = distinct_ring if config.merge_copies else whole
    if config.search_size is None:
        return StoredLatents(searched.init(config.ring_size, latent_dim), None)
    # A ring that is not searched is only read by place, so copies need not be merged.
    return StoredLatents(
        whole.init(config.ring_size, latent_dim), searched.init(config.search_size, latent_dim)
    )


def add(
    stored: StoredLatents, latents: Float[Array, "batch latent"], identity: UInt32[Array, " batch"]
) -> tuple[StoredLatents, Int[Array, " batch"]]:
    """Stores a batch in place of the oldest; also returns their places in `ring`.

    Args:
      stored: updated in place by XLA if the caller does not use it again.
      latents: one per place.
      identity: `fingerprint.of` the observations.
    """
    ring, place = _FUNCTIONS_OF[type(stored.ring)].add(stored.ring, latents, identity)
    newest = stored.newest
    if newest is not None:
        newest, _ = _FUNCTIONS_OF[type(newest)].add(newest, latents, identity)
    return StoredLatents(ring, newest), place


def at(
    stored: StoredLatents, place: Int[Array, " batch"]
) -> tuple[Float[Array, "batch latent"], UInt32[Array, " batch"]]:
    """Latents and fingerprints at places that `add` returned."""
    return _of_rows(stored.ring, _row_at(stored.ring, place))


def nearest_stored(
    config: RE3Config, stored: StoredLatents, place: Int[Array, " batch"]
) -> Nearest:
    """Distances from stored latents, given by place, to their neighbours among those searched."""
    ring, newest = stored
    row = _row_at(ring, place)
    if isinstance(ring, DistinctRing):
        return once_each(lambda row: _nearest(config, *_of_rows(ring, row), ring, row), row)
    latents, identity = _of_rows(ring, row)
    if newest is None:
        return _nearest(config, latents, identity, ring, row)
    newest_row = _row_in_newest(config, ring, newest, place)
    return _nearest(config, latents, identity, newest, newest_row)


def nearest_in_batch(
    config: RE3Config, latents: Float[Array, "batch latent"], identity: UInt32[Array, " batch"]
) -> Nearest:
    """Distances from the latents of a batch to their neighbours in the same batch.

    Raises:
      ValueError: if the batch has no neighbour of rank `last_neighbour`.
    """
    check_minibatch(len(latents), config.last_neighbour, "last_neighbour", config.count_self)
    ring, row = latent_ring.add(latent_ring.init(*latents.shape), latents, identity)
    return _nearest(config, latents, identity, ring, row)


def check_minibatch(batch_size: int, rank: int, field: str, count_self: bool = False) -> None:
    """Refuses a batch without a neighbour of the rank that `field` says.

    Raises:
      ValueError: if there is none.
    """
    if rank > batch_size - (0 if count_self else 1):
        raise ValueError(
            f"a minibatch of {batch_size} has no neighbour of rank {rank}: raise the batch size, "
            f'lower {field} or set neighbours to "ring"'
        )


def _nearest(
    config: RE3Config, latents: Array, identity: Array, among: Ring, own_row: Int[Array, " batch"]
) -> Nearest:
    axis_name = None
    if isinstance(among, ShardedRing):
        among, axis_name = sharded_ring.own_slice(among), sharded_ring.AXIS

    def search(latents: Array, identity: Array, own_row: Array) -> Nearest:
        return knn.nearest_and_mean(
            latents,
            among,
            fingerprints=identity,
            k=config.last_neighbour,
            first=config.first_neighbour,
            exclude=None if config.count_self else own_row,
            axis_name=axis_name,
        )

    return batch_split.by_rows(search, latents, identity, own_row)


def _row_at(ring: Ring, place: Int[Array, " batch"]) -> Int[Array, " batch"]:
    return _FUNCTIONS_OF[type(ring)].row_at(ring, place)


def _of_rows(ring: Ring, row: Int[Array, " batch"]) -> tuple[Array, Array]:
    """Latents and fingerprints of rows."""
    if isinstance(ring, ShardedRing):
        return sharded_ring.take(ring, row)
    return ring.latents[row], ring.fingerprints[row]


def _row_in_newest(
    config: RE3Config, ring: Ring, newest: Ring, place: Int[Array, " batch"]
) -> Int[Array, " batch"]:
    """Rows in `newest` of latents at places of `ring`; -1 for those older than `newest`."""
    assert config.search_size is not None
    found = latent_ring.place_in_newest(
        ring.cursor, config.ring_size, newest.cursor, config.search_size, place
    )
    return jnp.where(found >= 0, _row_at(newest, jnp.maximum(found, 0)), -1)
