"""A tree of sums over priorities: draws in proportion to them, in O(log n) (Schaul et al., 2016).

Each node has sixteen children: few levels, each a handful of wide operations. Every update
recomputes sums from the children instead of adding differences, so rounding does not accumulate.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

CHILDREN = 16

LEVELS_OF_A_SHARE = 3
"""Levels through which a share is followed: it has digits enough for 16^3 groups of leaves."""


class SumTree(NamedTuple):
    """Sums by level, the leaves first; places beyond the capacity are zero.

    Attributes:
      levels: float32; each length is a multiple of `CHILDREN`, the last is `CHILDREN` itself.
    """

    levels: tuple[Float[Array, " nodes"], ...]


def init(capacity: int) -> SumTree:
    """A tree of `capacity` leaves of priority zero.

    Raises:
      ValueError: if `capacity` is not positive.
    """
    if capacity < 1:
        raise ValueError(f"a tree needs at least 1 leaf, but its capacity is {capacity}")
    levels: list[Float[Array, " nodes"]] = []
    nodes = capacity
    while not levels or levels[-1].size > CHILDREN:
        parents = -(-nodes // CHILDREN)
        levels.append(jnp.zeros(parents * CHILDREN, jnp.float32))
        nodes = parents
    return SumTree(tuple(levels))


def update(tree: SumTree, index: Int[Array, " batch"], priority: Float[Array, " batch"]) -> SumTree:
    """Sets the priorities of leaves, which must be finite and not negative.

    Indices past the tree are ignored: to skip an entry, pass the largest value of its dtype. Equal
    indices must have equal priorities.
    """
    leaves = tree.levels[0].at[index].set(priority, mode="drop")
    levels, node = [leaves], index
    for above in tree.levels[1:]:
        node = node // CHILDREN
        groups = levels[-1].reshape(-1, CHILDREN)
        sums = jnp.sum(groups.at[node].get(mode="clip"), axis=1)
        levels.append(above.at[node].set(sums, mode="drop"))
    return SumTree(tuple(levels))


def total(tree: SumTree) -> Float[Array, ""]:
    """Sum of all priorities."""
    return jnp.sum(tree.levels[-1])


def priority_of(tree: SumTree, index: Int[Array, " batch"]) -> Float[Array, " batch"]:
    """Priorities of leaves."""
    return tree.levels[0].at[index].get(mode="promise_in_bounds")


def find(
    tree: SumTree, share: Float[Array, " batch"], within: Float[Array, " batch"]
) -> Int[Array, " batch"]:
    """Leaves at given shares of the total, where all priorities lie end to end in order.

    Uniform shares in [0, 1) draw leaves in proportion to their priorities. A leaf of priority
    zero is never found if the total is above zero.

    Args:
      tree: with a total above zero.
      share: from 0 to 1.
      within: the share of the group of leaves where `share` ends in a tree of more than 4,096
        leaves. Float32s from 0.5 to 1 are 2^23: no more than 17 for each of half a million leaves.
    """
    rest = share * total(tree)
    node = jnp.zeros(share.shape, jnp.int32)
    for depth, level in enumerate(reversed(tree.levels)):
        sums = level.reshape(-1, CHILDREN).at[node].get(mode="promise_in_bounds")
        ends = jnp.cumsum(sums, axis=1)
        if depth == LEVELS_OF_A_SHARE:
            rest = within * ends[:, -1]
        child = jnp.sum(ends <= rest[:, None], axis=1, dtype=jnp.int32)
        # Sums of sums round differently: a share beyond the last child belongs to the last child
        # with a positive priority.
        last = CHILDREN - 1 - jnp.argmax(sums[:, ::-1] > 0, axis=1).astype(jnp.int32)
        child = jnp.minimum(child, last)
        begins = jnp.take_along_axis(ends - sums, child[:, None], axis=1)[:, 0]
        rest = jnp.maximum(rest - begins, 0.0)
        node = node * CHILDREN + child
    return node


def stratified_shares(
    uniform: Float[Array, " batch"],
) -> Float[Array, " batch"]:
    """One share from each of `batch` equal parts of [0, 1), given uniform numbers in [0, 1)."""
    count = uniform.shape[0]
    shares = (jnp.arange(count) + uniform) / count
    # The quotient can round to 1.
    return lax.min(shares, jnp.float32(1 - jnp.finfo(jnp.float32).epsneg))
