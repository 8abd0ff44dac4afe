"""Frames stored as flat rows, which every backend writes and reads in place.

A TPU keeps arrays in tiles of 8 x 128 elements and orders the axes so that little is padded. Of
frames [row, height, width, channel] it makes the rows the innermost axis, because it would pad 3
channels to 128. Then one frame lies all over the memory, and to write or read it XLA first copies
all of them. Rows of a multiple of 128 elements need no padding and stay whole
(`make compile TARGET=v5e`).
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Shaped

from re3_jax.tiles import TILE, padded

TALL_TILE = 32
"""Rows of a tile that a TPU chooses for bytes in a multiple of so many rows.

It has to copy all of them before it can write one.
"""


def num_places(rows: int) -> int:
    """Places for a ring of so many rows: a spare one if they would make tall tiles."""
    return rows + (rows % TALL_TILE == 0)


def row_size(frame_shape: tuple[int, ...]) -> int:
    """Elements of a row: the frame's, in whole tiles if the frame fills one."""
    size = math.prod(frame_shape)
    return size if size < TILE else padded(size)


@partial(jax.tree_util.register_dataclass, data_fields=["array"], meta_fields=["frame_shape"])
@dataclass(frozen=True)
class FrameRows:
    """Places for frames.

    Attributes:
      array: one row per place; what is behind the frame in a row is zero.
      frame_shape: shape of a frame.
    """

    array: Shaped[Array, "*places row"]
    frame_shape: tuple[int, ...]

    @classmethod
    def of(cls, frames: Shaped[Array, "..."], frame_shape: tuple[int, ...]) -> "FrameRows":
        """These frames, at places in the order of the leading axes."""
        places = frames.shape[: frames.ndim - len(frame_shape)]
        size = math.prod(frame_shape)
        behind = [(0, 0)] * len(places) + [(0, row_size(frame_shape) - size)]
        return cls(jnp.pad(frames.reshape(*places, size), behind), tuple(frame_shape))

    @classmethod
    def zeros(
        cls, places: tuple[int, ...], frame_shape: tuple[int, ...], dtype: DTypeLike
    ) -> "FrameRows":
        """Frames of zeros."""
        return cls(jnp.zeros((*places, row_size(frame_shape)), dtype), tuple(frame_shape))

    def write(self, where: Any, frames: Shaped[Array, "..."], **options: Any) -> "FrameRows":
        """Frames at places in place of those there; `options` are those of `array.at[].set`."""
        rows = FrameRows.of(frames, self.frame_shape).array
        return replace(self, array=self.array.at[where].set(rows, **options))

    def read(self, where: Any) -> Shaped[Array, "..."]:
        """Frames at places, which must exist."""
        # Whole rows: a TPU reads parts of rows one after the other.
        return self._frames(self.array.at[where].get(mode="promise_in_bounds"))

    def all(self) -> Shaped[Array, "..."]:
        """Every frame: a copy of the whole store."""
        return self._frames(self.array)

    def _frames(self, rows: Shaped[Array, "*some row"]) -> Shaped[Array, "..."]:
        size = math.prod(self.frame_shape)
        return rows[..., :size].reshape(*rows.shape[:-1], *self.frame_shape)
