"""The 7x7 view of a MiniGrid agent, computed from coordinates without a grid.

A cell of the view is one integer; `image` splits it into the three channels of Farama's
observation. The content and visibility of a cell follow from the positions of walls, door, key and
goal relative to the agent.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

Scalar = Int[Array, ""]
Image = UInt8[Array, "7 7 3"]
Projection = Callable[[Scalar | int, Scalar | int], tuple[Scalar, Scalar]]

VIEW = 7

# One cell in one integer: object in bits 0-7, colour in bits 8-15, door state in bits 16-23.
UNSEEN = 0
EMPTY = 1
WALL = 2 | 5 << 8
DOOR = 4 | 4 << 8
KEY = 5 | 4 << 8
GOAL = 8 | 1 << 8
_CHANNEL_SHIFTS = np.array([0, 8, 16], np.int32)

# View cells relative to the agent: columns right of it, rows ahead of it.
RIGHTWARD = (np.arange(VIEW, dtype=np.int32) - VIEW // 2)[:, None]
AHEAD = (VIEW - 1 - np.arange(VIEW, dtype=np.int32))[None, :]
OUT_OF_VIEW = VIEW


class Agent(NamedTuple):
    """The agent's pose, whether it carries the key, and the state of the door.

    Attributes:
      x: column, from the left.
      y: row, from the top.
      direction: 0 right, 1 down, 2 left, 3 up.
      carrying: 1 while the agent carries the key, else 0.
      door: 0 open, 1 closed, 2 locked.
    """

    x: Scalar
    y: Scalar
    direction: Scalar
    carrying: Scalar
    door: Scalar


def heading(direction: Scalar) -> tuple[Scalar, Scalar]:
    """Columns and rows that one step forward adds."""
    vertical = (direction & 1) == 1
    return jnp.where(vertical, 0, 1 - direction), jnp.where(vertical, 2 - direction, 0)


def front_cell(agent: Agent) -> tuple[Scalar, Scalar]:
    """The cell (x, y) that the agent faces."""
    dx, dy = heading(agent.direction)
    return agent.x + dx, agent.y + dy


def projection(agent: Agent) -> Projection:
    """Return the map from a cell (x, y) to (rows ahead, columns right) of the agent."""
    dx, dy = heading(agent.direction)

    def project(x: Scalar | int, y: Scalar | int) -> tuple[Scalar, Scalar]:
        east, south = x - agent.x, y - agent.y
        return east * dx + south * dy, south * dx - east * dy

    return project


def at(ahead: Scalar | int, right: Scalar | int) -> Bool[Array, "7 7"]:
    """Mask of the cell `ahead` rows ahead and `right` columns right of the agent, if in view."""
    return (AHEAD == ahead) & (RIGHTWARD == right)


def room(project: Projection, size: int) -> tuple[Int[Array, "7 7"], Bool[Array, "7 7"]]:
    """Cells of a walled room with its goal, and a mask of those that lie on the map.

    Cells off the map are walls, as in Farama's view.
    """
    ahead_0, right_0 = project(0, 0)
    ahead_1, right_1 = project(size - 1, size - 1)
    # The map's edge behind the agent is never in view.
    front = jnp.maximum(ahead_0, ahead_1)
    left, right = jnp.minimum(right_0, right_1), jnp.maximum(right_0, right_1)
    walls = (AHEAD >= front) | (RIGHTWARD <= left) | (RIGHTWARD >= right)
    inside = (front >= AHEAD) & (left <= RIGHTWARD) & (right >= RIGHTWARD)
    cells = jnp.where(at(*project(size - 2, size - 2)), GOAL, EMPTY)
    return jnp.where(walls, WALL, cells), inside


def seen(
    faces_wall: Bool[Array, ""],
    wall: tuple[Scalar, Scalar],
    door: tuple[Scalar, Scalar],
    is_open: Bool[Array, ""],
) -> Bool[Array, "7 7"]:
    """Cells on the map that Farama's `process_vis` lets the agent see in DoorKey.

    `process_vis` floods each row of the view sideways through transparent cells, then lights the
    cells ahead of all reached ones, and their neighbours. Both rooms are rectangles, so the flood
    has a closed form: the agent's own room with its walls and, if the open door is in view, the
    part of the other room past the door (from the door's row on if the wall runs along the view,
    from the next row on if it runs across). From within the doorway, the agent sees the cells
    beside it and everything past the door.

    Args:
      faces_wall: whether the wall runs across the view (the agent faces left or right).
      wall: rows ahead and columns right of the agent at which the wall lies; the coordinate
        along which the wall runs is 0.
      door: rows ahead and columns right of the agent at which the door lies.
      is_open: whether the door is open.
    """
    wall_ahead, wall_right = wall
    door_ahead, door_right = door
    in_doorway = (wall_ahead == 0) & (wall_right == 0)
    front = jnp.where(wall_ahead > 0, wall_ahead, OUT_OF_VIEW)
    left = jnp.where(wall_right < 0, wall_right, -OUT_OF_VIEW)
    right = jnp.where(wall_right > 0, wall_right, OUT_OF_VIEW)
    front = jnp.where(in_doorway, 0, front)
    left = jnp.where(in_doorway, -1, left)
    right = jnp.where(in_doorway, 1, right)
    own_room = (front >= AHEAD) & (left <= RIGHTWARD) & (right >= RIGHTWARD)

    door_in_view = (door_ahead >= 0) & (door_ahead < VIEW) & (jnp.abs(door_right) <= VIEW // 2)
    past_door = jnp.where(faces_wall, door_ahead + 1, door_ahead)
    return own_room | (AHEAD >= jnp.where(is_open & door_in_view, past_door, OUT_OF_VIEW))


def image(cells: Int[Array, "7 7"]) -> Image:
    """Farama's three channels of a view of cells."""
    return (cells[:, :, None] >> _CHANNEL_SHIFTS).astype(jnp.uint8)
