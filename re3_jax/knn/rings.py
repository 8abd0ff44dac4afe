"""The rules that extend the search of one ring to many rings.

`over_rings` gives the search a rule for `vmap`. `among_first_rows` compiles it for several sizes of
a `DistinctRing`, which uses only its first rows.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from re3_jax.cpu.branches import of_platform
from re3_jax.cpu.by_platform import mapped_one_by_one
from re3_jax.tiles import padded

Search = Callable[..., Any]

DISTINCT_ROWS = (512, 2048)
"""Prefix sizes for the search of a distinct ring: it uses the smallest that includes all used rows.

If a ring uses more rows than the largest of them, all rows are searched.
"""

ALONE_BYTES = 8 * 2**20, 64 * 2**20
"""Sizes of a ring between which a TPU searches several rings one after the other.

They are bytes, with the padding of whole rows; the second size still counts. For smaller rings the
TPU would do little at a time. Larger ones do not fit on the chip, and for them a v5e moves a third
more one after the other than all at once.
"""


def over_rings(search_one: Search) -> Search:
    """`search_one` with a rule for `vmap` over rings, such as one ring per seed.

    Args:
      search_one: (queries, own rows, rows, number of rows to look at) -> [batch, k].
    """

    # All rings share the trip count of the loop over blocks. With a trip count for each ring, XLA
    # would select over the whole carry in each iteration.
    @jax.custom_batching.custom_vmap
    def together(queries, own_row, rows, num_rows):
        last_row = jnp.max(num_rows)

        def body(queries, own_row, rows):
            return search_one(queries, own_row, rows, last_row)

        return jax.vmap(body)(queries, own_row, rows)

    @together.def_vmap
    def _(axis_size, batched, *arguments):
        stacked = _broadcast(axis_size, batched, arguments)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), stacked)
        found = together(*flat)
        return found.reshape(axis_size, -1, *found.shape[1:]), True

    def alone(*arguments):
        def as_one_of_many(*arguments):
            return together(*jax.tree.map(lambda x: x[None], arguments))[0]

        # A TPU would turn a whole ring without a leading axis, to look up the best rows in it.
        return of_platform(*arguments, tpu=as_one_of_many, default=search_one)

    search = jax.custom_batching.custom_vmap(alone)

    @search.def_vmap
    def _(axis_size, batched, *arguments):
        one_by_one = mapped_one_by_one(search, batched)

        def all_at_once(*arguments):
            return together(*_broadcast(axis_size, batched, arguments))

        # A TPU copies all rings for the product of several at once; one after the other it takes
        # onto its chip.
        rows, width = arguments[2].latents.shape[-2:]
        in_turn = axis_size > 1 and ALONE_BYTES[0] < rows * padded(width) * 4 <= ALONE_BYTES[1]
        on_tpu = one_by_one if in_turn else all_at_once
        # Batched products are slow on a CPU, and a single ring keeps all its cores busy.
        found = of_platform(*arguments, cpu=one_by_one, tpu=on_tpu, default=all_at_once)
        return found, True

    return search


def among_first_rows(search: Search, sizes: list[int]) -> Search:
    """`search` over the first rows only: the fewest of `sizes` that include all rows in use.

    Args:
      search: a result of `over_rings`.
      sizes: ascending; the last is the capacity. One size serves all rings of a `vmap`.
    """

    def of_size(of_all_rings, axis):
        def branch(size):
            def first(*arguments):
                queries, own_row, rows, num_rows = arguments
                # The scale of gaps has no rows.
                rows = jax.tree.map(
                    lambda x: lax.slice_in_dim(x, 0, size, axis=axis) if x.ndim > axis else x, rows
                )
                return of_all_rings(queries, own_row, rows, num_rows)

            return first

        def switch(*arguments):
            number = jnp.searchsorted(jnp.asarray(sizes), jnp.max(arguments[-1]))
            return lax.switch(number, [branch(size) for size in sizes], *arguments)

        return jax.custom_batching.custom_vmap(switch)

    one, together = of_size(search, 0), of_size(jax.vmap(search), 1)

    @one.def_vmap
    def _(axis_size, batched, *arguments):
        return together(*_broadcast(axis_size, batched, arguments)), True

    @together.def_vmap
    def _(axis_size, batched, *arguments):
        stacked = _broadcast(axis_size, batched, arguments)
        found = together(*jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), stacked))
        return found.reshape(axis_size, -1, *found.shape[1:]), True

    return one


def _broadcast(axis_size, batched, arguments):
    def stack(x, is_batched):
        return x if is_batched else jnp.broadcast_to(x, (axis_size, *x.shape))

    return tuple(jax.tree.map(stack, *pair) for pair in zip(arguments, batched, strict=True))
