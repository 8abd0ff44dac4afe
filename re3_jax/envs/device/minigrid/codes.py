"""Codes of MiniGrid: actions, and cells with what stands in them.

A cell is one int32, in fields that are Farama's numbers: the kind of object in bits 0-7, its colour
in bits 8-15, the state of a door in bits 16-23, and for a box the kind and colour of what it
contains in bits 24-27 and 28-30 (0 for an empty box). The first three are the channels of an
observation.
"""

from typing import Final, overload

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8

Scalar = Int[Array, ""]
Whole = Scalar | int
Cells = Int[Array, "*cells"]
Image = UInt8[Array, "7 7 3"]

VIEW = 7
"""Columns and rows of the agent's view."""

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, DONE = range(7)
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(6)
COLOURS: Final = ("red", "green", "blue", "purple", "yellow", "grey")
OPEN, CLOSED, LOCKED = range(3)

# Kinds without a colour, which are whole cells.
UNSEEN = 0
EMPTY = 1
# Kinds of a colour.
FLOOR, DOOR, KEY, BALL, BOX = 3, 4, 5, 6, 7
WALL = 2 | GREY << 8
GOAL = 8 | GREEN << 8
LAVA = 9 | RED << 8

_CHANNEL_SHIFTS = np.array([0, 8, 16], np.int32)


def kind(cells: Cells) -> Cells:
    """Kinds of the objects in cells."""
    return cells & 0xFF


def colour(cells: Cells) -> Cells:
    """Colours of the objects in cells."""
    return cells >> 8 & 0xFF


def door_state(cells: Cells) -> Cells:
    """States of the objects in cells: `OPEN`, `CLOSED` or `LOCKED` for a door, 0 for others."""
    return cells >> 16 & 0xFF


@overload
def coloured(kind: int, colour: int, state: int = 0) -> int: ...


@overload
def coloured(kind: int, colour: Scalar, state: int = 0) -> Scalar: ...


def coloured(kind: int, colour: Whole, state: int = 0) -> Whole:
    """The cell of a key, ball, empty box or door."""
    return kind | colour << 8 | state << 16


def box(colour: int, content: Scalar) -> Scalar:
    """The cell of a box that contains a key, ball or empty box."""
    return BOX | colour << 8 | (content & 0xF) << 24 | (content >> 8 & 0x7) << 28


def content(cells: Cells) -> Cells:
    """What is left when boxes are opened."""
    inside = cells >> 24 & 0xF
    return jnp.where(inside == 0, EMPTY, inside | (cells >> 28 & 0x7) << 8)


def image(cells: Int[Array, "7 7"]) -> Image:
    """Farama's three channels of a view of cells."""
    return (cells[:, :, None] >> _CHANNEL_SHIFTS).astype(jnp.uint8)
