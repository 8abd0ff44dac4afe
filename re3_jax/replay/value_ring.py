"""A ring of one number per stored step: what an episodic bonus knows only while it observes.

A bonus that depends on the rest of its episode cannot be computed again when a batch is drawn from
a replay. So it is stored with the step, and looked up by the index that the replay returns.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Int, Shaped


class ValueRing(NamedTuple):
    """First-in-first-out store.

    Attributes:
      values: one number per step; zero where nothing has been written.
      cursor: place that the next insertion writes first.
    """

    values: Shaped[Array, " capacity"]
    cursor: Int[Array, ""]


def init(capacity: int, dtype: DTypeLike = jnp.float32) -> ValueRing:
    """An empty ring.

    Raises:
      ValueError: if the capacity is not positive.
    """
    if capacity < 1:
        raise ValueError(f"a ring of {capacity} values cannot hold anything: give at least 1")
    return ValueRing(jnp.zeros(capacity, dtype), jnp.zeros((), jnp.int32))


def add(ring: ValueRing, values: Shaped[Array, " batch"]) -> tuple[ValueRing, Int[Array, " batch"]]:
    """Writes a batch over the oldest values; also returns their places.

    Raises:
      ValueError: if the batch has more values than the ring has places.
    """
    capacity, size = len(ring.values), len(values)
    check(ring, size)
    index = (ring.cursor + jnp.arange(size, dtype=jnp.int32)) % capacity
    written = ring.values.at[index].set(
        values.astype(ring.values.dtype), unique_indices=True, mode="promise_in_bounds"
    )
    return ValueRing(written, (ring.cursor + size) % capacity), index


def check(ring: ValueRing, size: int) -> None:
    """Rejects a rollout of more steps than the ring has places: it would overwrite its own.

    Raises:
      ValueError: if it has more.
    """
    capacity = len(ring.values)
    if size > capacity:
        raise ValueError(
            f"{size} values do not fit a ring of {capacity}: make it as large as one rollout"
        )
