"""One batch on several devices: an update's rows divided among the devices of its seed.

XLA divides all that follows from the rows, and adds up what is summed over them (gradients above
all) with an exchange. A function that must not be divided so runs `whole`; within it `by_rows`
divides what is independent for each row. Without the mesh axis `AXIS` all of them do nothing.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax import lax
from jax.sharding import PartitionSpec, get_abstract_mesh
from jaxtyping import Array, Shaped

AXIS = "re3_jax_batch"
"""The mesh axis over which rows are divided; never the name that a user gives an axis of theirs."""

Rows = TypeVar("Rows", bound=Any)


def split(batch: Rows, axis: int = 0) -> Rows:
    """Divides `axis` of every array among the devices; the values stay the same.

    Raises:
      ValueError: from JAX, if the rows cannot be divided evenly.
    """
    if num_devices() == 1:
        return batch
    spec = PartitionSpec(*[None] * axis, AXIS)
    return jax.tree.map(lambda leaf: lax.with_sharding_constraint(leaf, spec), batch)


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `function` so that every device computes all of it, as a single device would."""

    def run(*arguments: Any) -> Any:
        if num_devices() == 1:
            return function(*arguments)
        everywhere = PartitionSpec()
        return jax.shard_map(
            function,
            in_specs=everywhere,
            out_specs=everywhere,
            axis_names={AXIS},
            check_vma=False,
        )(*arguments)

    return run


def by_rows(function: Callable[..., Any], *rows: Shaped[Array, "batch ..."]) -> Any:
    """`function(*rows)` inside `whole`, of which each device computes an equal share of rows.

    Args:
      function: gives arrays with the same leading axis; a row of them depends on its own row alone.
      rows: arrays that all devices have. If they cannot be divided evenly, each computes all.
    """
    size, count = len(rows[0]), num_devices()
    if count == 1 or AXIS not in get_abstract_mesh().manual_axes or size % count:
        return function(*rows)
    share = size // count
    start = lax.axis_index(AXIS) * share
    results = function(*(lax.dynamic_slice_in_dim(leaf, start, share) for leaf in rows))
    return jax.tree.map(lambda leaf: lax.all_gather(leaf, AXIS, tiled=True), results)


def num_devices() -> int:
    """How many devices share the batches of the program that is being traced."""
    return int(get_abstract_mesh().shape.get(AXIS, 1))
