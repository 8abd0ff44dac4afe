"""Batches whose elements repeat: where each value comes first, and work done once for each value.

A rollout of a gridworld repeats its observations: one of 2,048 steps of PPO in DoorKey-8x8 had 169
distinct views, those of 128 steps of A2C about 50. What depends on the view alone need not be
computed for every step. That this saves time is measured on a CPU only.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, Integer, Shaped

from re3_jax.cpu.branches import of_platform
from re3_jax.varying import varying_like

ALL_PAIRS = 256
"""Largest batch whose pairs are compared; a larger one is sorted."""

AT_ONCE = 256
"""Distinct values for which `once_each` calls its function together."""

AT_ONCE_ON_A_CPU = 64
"""The same on a CPU, where a call costs little beside its work."""


def first_places(values: Integer[Array, " batch"]) -> Int[Array, " batch"]:
    """For each value, the first place in the batch that has it, int32."""
    size = len(values)
    if size <= ALL_PAIRS:
        return jnp.argmax(values[:, None] == values, axis=1).astype(jnp.int32)
    place = jnp.arange(size, dtype=jnp.int32)
    # By value, and within a value by place.
    ordered, places = lax.sort((values, place), num_keys=2)
    begins = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])
    first = places[lax.cummax(jnp.where(begins, place, 0))]
    return jnp.zeros_like(place).at[places].set(first, unique_indices=True)


def once_each(function: Callable[[Int[Array, " n"]], Any], values: Int[Array, " batch"]) -> Any:
    """`function(values)`, computed once for each distinct value if the batch is large.

    Args:
      function: of some of the values; its result is a pytree of arrays with a leading axis, each
        row of which depends on one value only.
      values: int32.
    """

    def once(at_once: int, values: Int[Array, " batch"]) -> Any:
        if len(values) <= at_once:
            return function(values)
        return _once_at(function, values, first_places(values), at_once)

    return _of_platform(once, values)


def _of_platform(once: Callable[..., Any], *arguments: Array) -> Any:
    """`once`, given how many values go together on the platform of the program."""
    if len(arguments[0]) <= AT_ONCE_ON_A_CPU:
        return once(AT_ONCE, *arguments)
    ways = partial(once, AT_ONCE_ON_A_CPU), partial(once, AT_ONCE)
    return of_platform(*arguments, cpu=ways[0], default=ways[1])


def _once_at(
    function, values: Int[Array, " batch"], first: Int[Array, " batch"], at_once: int
) -> Any:
    """`once_each` of a large batch, whose values come first at the places `first`."""
    size = len(values)
    # Traced once for its shapes and in the loop.
    function = jax.jit(function, inline=True)
    is_first = first == jnp.arange(size)
    number = jnp.cumsum(is_first, dtype=jnp.int32) - 1
    num_tiles = -(-size // at_once)
    # The last tile is filled up with a value that occurs.
    distinct = jnp.full(num_tiles * at_once, values[0])
    distinct = distinct.at[jnp.where(is_first, number, len(distinct))].set(values, mode="drop")

    def body(i, results):
        start = i * at_once
        new = function(lax.dynamic_slice_in_dim(distinct, start, at_once))
        return jax.tree.map(
            lambda all_of, few: lax.dynamic_update_slice_in_dim(all_of, few, start, 0), results, new
        )

    def unknown(leaf):
        return jnp.zeros((len(distinct), *leaf.shape[1:]), leaf.dtype)

    empty = jax.tree.map(unknown, jax.eval_shape(function, distinct[:at_once]))
    empty = varying_like(empty, values)
    found = lax.fori_loop(0, number[-1] // at_once + 1, body, empty)
    return jax.tree.map(lambda leaf: leaf[number[first]], found)


def once_each_element(
    function: Callable[[Shaped[Array, " n *element"]], Any],
    elements: Shaped[Array, " batch *element"],
    hashes: Integer[Array, " batch"],
) -> Any:
    """`function(elements)`, computed once for equal elements if the batch is large.

    Args:
      function: as in `once_each`, of some of the elements.
      elements: any dtype.
      hashes: equal for equal elements. Different elements that share one are told apart.
    """

    def once(at_once: int, elements: Array, hashes: Integer[Array, " batch"]) -> Any:
        if len(hashes) <= at_once:
            return function(elements)
        first = first_places(hashes)
        same = jnp.all(elements[first] == elements, axis=tuple(range(1, elements.ndim)))
        place = jnp.where(same, first, jnp.arange(len(hashes), dtype=jnp.int32))
        return _once_at(lambda chosen: function(elements[chosen]), place, place, at_once)

    return _of_platform(once, jnp.asarray(elements), hashes)
