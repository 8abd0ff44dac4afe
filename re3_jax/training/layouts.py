"""In which order a TPU keeps the axes of arrays with many short rows, such as latents and actions.

A TPU keeps an array in tiles of 8 x 128 numbers. Left to itself it orders the axes of a program's
arguments so that little is padded: with the leading axis `seed` it ends up with tiles that no
instruction reads, and each program copies the whole array first, 450 MB for a million latents of
50 numbers (`make compile TARGET=v5e`). With the rows innermost, a search, a lookup and a write take
them where they are.
"""

from typing import Any

import jax
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding

PLATFORMS = ("tpu",)
"""Elsewhere arrays are not padded, and stay in the order of their axes."""

TILE = 128
"""Numbers along the inner axis of a tile."""

MANY_ROWS = 32 * TILE
"""Fewer are not worth an order of their own."""


def format_of(leaf: Any, sharding: NamedSharding) -> Format | NamedSharding:
    """How one array of a state lies on the devices of `sharding`.

    Args:
      leaf: has a shape, which begins with the axis `seed`, and a dtype.
      sharding: where it is.

    Returns:
      The rows innermost for rows of less than a tile; otherwise `sharding`, which leaves the order
      to the compiler.
    """
    platform = sharding.mesh.devices.flat[0].platform
    if platform not in PLATFORMS or leaf.ndim < 3 or leaf.dtype.itemsize != 4:
        return sharding
    rows, width = leaf.shape[-2:]
    if rows < MANY_ROWS or not 1 < width < TILE:
        return sharding
    *before, row_axis, axis = range(leaf.ndim)
    return Format(Layout(major_to_minor=(*before, axis, row_axis)), sharding)


def put(leaf: Any, like: Any) -> Any:
    """The array in the order that `like`, a shape with a format, asks for; itself, if in none."""
    of_like = getattr(like, "format", None)
    return leaf if of_like is None or of_like.layout is None else jax.device_put(leaf, of_like)
