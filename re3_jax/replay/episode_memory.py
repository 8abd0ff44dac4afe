"""What each lane has met in its present episode: a ring of rows per lane, emptied when it ends."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Int, Shaped

from re3_jax.plural import number_of


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
    """Adds a row to each lane, over its oldest one if the memory is full.

    Raises:
      ValueError: if there are not as many rows as lanes.
    """
    check_lanes(len(memory.rows), len(rows))
    lanes, capacity = memory.rows.shape[:2]
    place = jnp.arange(lanes), memory.num_added % capacity
    written = memory.rows.at[place].set(rows, unique_indices=True, mode="promise_in_bounds")
    return EpisodeMemory(written, memory.num_added + 1)


def check_lanes(made_for: int, shown: int) -> None:
    """Rejects steps of another number of lanes than a bonus remembers episodes of.

    Raises:
      ValueError: if the two differ.
    """
    if made_for != shown:
        raise ValueError(
            f"this bonus remembers the episodes of {number_of(made_for, 'lane')} but is "
            f"shown {shown}: give init the number of lanes"
        )


def is_stored(memory: EpisodeMemory) -> Bool[Array, "lane capacity"]:
    """Which rows belong to the present episodes."""
    return jnp.arange(memory.rows.shape[1]) < memory.num_added[:, None]


def clear(memory: EpisodeMemory, ended: Bool[Array, " lane"]) -> EpisodeMemory:
    """Empties the memories of lanes whose episode has ended."""
    return memory._replace(num_added=jnp.where(ended, 0, memory.num_added))


def first_steps(ended: Bool[Array, "time lane"]) -> Int[Array, "time lane"]:
    """The step of a rollout with which each step's episode began; -1 if it began before."""
    time = jnp.arange(len(ended), dtype=jnp.int32)[:, None]
    begins = jnp.pad(ended[:-1], ((1, 0), (0, 0)))
    return lax.cummax(jnp.where(begins, time, -1), axis=0)


def num_before(
    memory: EpisodeMemory, step: Int[Array, ""], first: Int[Array, " lane"]
) -> Int[Array, " lane"]:
    """Rows added to each lane's episode before a step of a rollout that follows `memory`.

    Args:
      memory: before the rollout.
      step: which of its steps.
      first: `first_steps` of that step.
    """
    return jnp.where(first < 0, memory.num_added + step, step - first)


def is_stored_at(
    memory: EpisodeMemory, step: Int[Array, ""], first: Int[Array, " lane"], length: int
) -> tuple[Bool[Array, "lane capacity"], Bool[Array, "lane time"]]:
    """What the memories would hold at a step, had the steps before it been added one by one.

    Args:
      memory: before the rollout.
      step: which of its steps.
      first: `first_steps` of that step.
      length: steps of the rollout.

    Returns:
      Which rows of `memory`, and which steps of the rollout.
    """
    capacity = memory.rows.shape[1]
    place = jnp.arange(capacity)
    # When each row was added, counted from the beginning of its episode.
    newest = memory.num_added[:, None] - 1
    added = newest - (newest - place) % capacity
    oldest = num_before(memory, step, first) - capacity
    of_memory = (added >= 0) & (added >= oldest[:, None]) & (first < 0)[:, None]
    time = jnp.arange(length)
    of_rollout = (time < step) & (time >= jnp.maximum(first, step - capacity)[:, None])
    return of_memory, of_rollout


def add_rollout(
    memory: EpisodeMemory, rows: Shaped[Array, "time lane *row"], ended: Bool[Array, "time lane"]
) -> EpisodeMemory:
    """Adds the steps of a rollout, and empties memories where episodes ended, in one write.

    Only rows of the episode of the last step are written.

    Raises:
      ValueError: if the rollout has another number of lanes.
    """
    check_lanes(len(memory.rows), rows.shape[1])
    length, lanes = ended.shape
    capacity, time = memory.rows.shape[1], jnp.arange(length)[:, None]
    first = first_steps(ended)[-1]
    place = jnp.where(first < 0, memory.num_added, 0) + time - jnp.maximum(first, 0)
    is_kept = (time >= first) & (time >= length - capacity)
    where = jnp.arange(lanes), jnp.where(is_kept, place % capacity, capacity)
    num_added = jnp.where(first < 0, memory.num_added + length, length - first)
    added = EpisodeMemory(memory.rows.at[where].set(rows, mode="drop"), num_added)
    return clear(added, ended[-1])
