"""What each lane has met in its present episode: a ring of rows per lane, emptied when it ends."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Int, Shaped


class EpisodeMemory(NamedTuple):
    """Rows of the present episode of each lane, oldest first until the ring is full.

    Attributes:
      rows: what was stored; rows of earlier episodes stay until they are overwritten.
      num_added: rows added since the lane's episode began.
    """

    rows: Shaped[Array, "lane capacity *row"]
    num_added: Int[Array, " lane"]


def init(
    num_lanes: int, capacity: int, row: tuple[int, ...] = (), dtype: DTypeLike = jnp.float32
) -> EpisodeMemory:
    """Empty memories of `capacity` rows of this shape each.

    Raises:
      ValueError: if the capacity is not positive.
    """
    if capacity < 1:
        raise ValueError(f"a memory of {capacity} rows cannot hold anything: give at least 1")
    rows = jnp.zeros((num_lanes, capacity, *row), dtype)
    return EpisodeMemory(rows, jnp.zeros(num_lanes, jnp.int32))


def add(memory: EpisodeMemory, rows: Shaped[Array, " lane *row"]) -> EpisodeMemory:
    """Adds a row to each lane, over its oldest one if the memory is full."""
    lanes, capacity = memory.rows.shape[:2]
    place = jnp.arange(lanes), memory.num_added % capacity
    written = memory.rows.at[place].set(rows, unique_indices=True, mode="promise_in_bounds")
    return EpisodeMemory(written, memory.num_added + 1)


def is_stored(memory: EpisodeMemory) -> Bool[Array, "lane capacity"]:
    """Which rows belong to the present episodes."""
    return jnp.arange(memory.rows.shape[1]) < memory.num_added[:, None]


def clear(memory: EpisodeMemory, ended: Bool[Array, " lane"]) -> EpisodeMemory:
    """Empties the memories of lanes whose episode has ended."""
    return memory._replace(num_added=jnp.where(ended, 0, memory.num_added))
