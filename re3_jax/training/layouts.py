"""In which order a TPU keeps the axes of arrays with many rows, such as latents and actions.

A TPU keeps an array in tiles of 8 x 128 numbers. Left to itself it orders the axes of a program's
arguments so that little is padded: with the leading axis `seed` it ends up with tiles that no
instruction reads, and each program copies the whole array first, 450 MB for a million latents of
50 numbers (`make compile TARGET=v5e`). In the order that its instructions choose, a search, a
lookup and a write take the rows where they are.
"""

import math
from typing import Any

import jax
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding

from re3_jax.tiles import TILE, rows_lie_whole

PLATFORMS = ("tpu",)
"""Platforms on which an order is chosen; elsewhere arrays are not padded, and keep theirs."""

MANY_ROWS = 32 * TILE
"""Fewest rows of an array that are worth an order of their own."""


def format_of(leaf: Any, sharding: NamedSharding) -> Format | NamedSharding:
    """How one array of a state lies on the devices of `sharding`.

    Args:
      leaf: has a shape, which begins with the axis `seed`, and a dtype.
      sharding: where it is.

    Returns:
      For many rows that fill no whole tiles, an order: rows whole, or, where that would waste too
      much (`tiles.rows_lie_whole`), rows innermost. Else `sharding`, which leaves the order to the
      compiler.
    """
    platform = sharding.mesh.devices.flat[0].platform
    if platform not in PLATFORMS or leaf.ndim < 3 or leaf.dtype.itemsize != 4:
        return sharding
    rows, width = leaf.shape[-2:]
    if rows < MANY_ROWS or width == 1 or width % TILE == 0:
        return sharding
    *before, row_axis, axis = range(leaf.ndim)
    whole = rows_lie_whole(math.prod(leaf.shape[1:-1]), width, leaf.dtype.itemsize)
    inner = (row_axis, axis) if whole else (axis, row_axis)
    return Format(Layout(major_to_minor=(*before, *inner)), sharding)


def put(leaf: Any, like: Any) -> Any:
    """The array in the order that `like`, a shape with a format, asks for; itself, if in none."""
    of_like = getattr(like, "format", None)
    return leaf if of_like is None or of_like.layout is None else jax.device_put(leaf, of_like)
