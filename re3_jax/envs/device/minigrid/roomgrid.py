"""Grids of equal square rooms, as Farama's `RoomGrid` makes them."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

from re3_jax.envs.device.minigrid.codes import EMPTY, WALL, Whole
from re3_jax.envs.device.minigrid.draws import chosen, uniform
from re3_jax.envs.device.minigrid.grids import Grid, put
from re3_jax.envs.device.minigrid.world import Pose

RIGHT, BELOW, LEFT, ABOVE = range(4)
"""The walls of a room, in the order of an agent's directions."""

HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Columns and rows that one step in each direction adds."""


class RoomGrid(NamedTuple):
    """The rooms of a task; room (i, j) is the one in column i and row j.

    Attributes:
      side: cells along a side of a room, its walls included; neighbours share a wall.
      columns: of rooms.
      rows: of rooms.
    """

    side: int
    columns: int
    rows: int

    @property
    def width(self) -> int:
        """Columns of cells."""
        return (self.side - 1) * self.columns + 1

    @property
    def height(self) -> int:
        """Rows of cells."""
        return (self.side - 1) * self.rows + 1

    @property
    def middle(self) -> tuple[int, int]:
        """The cell in the middle of the middle room.

        Farama's generator takes it for the agent's until the agent is placed: no object is placed
        on it or beside it.
        """
        return (
            self.columns // 2 * (self.side - 1) + self.side // 2,
            self.rows // 2 * (self.side - 1) + self.side // 2,
        )

    def corner(self, i: int, j: int) -> tuple[int, int]:
        """The upper left cell of the walls of room (i, j)."""
        return i * (self.side - 1), j * (self.side - 1)

    def walls(self) -> Grid:
        """The grid with nothing but walls."""
        x, y = np.arange(self.width)[None, :], np.arange(self.height)[:, None]
        is_wall = (x % (self.side - 1) == 0) | (y % (self.side - 1) == 0)
        return jnp.asarray(np.where(is_wall, WALL, EMPTY), jnp.int32)

    def num_doors(self) -> int:
        """Walls between two rooms, each of which can have a door."""
        return (self.columns - 1) * self.rows + self.columns * (self.rows - 1)

    def doors(self, words: UInt32[Array, " door"]) -> "Doors":
        """Where each wall would have its door, anywhere but in a corner."""
        offsets = uniform(words, 1, self.side - 1)
        upright = (self.columns - 1) * self.rows
        return Doors(
            self,
            offsets[:upright].reshape(self.rows, self.columns - 1),
            offsets[upright:].reshape(self.rows - 1, self.columns),
        )

    def place(self, grid: Grid, word: UInt32[Array, ""], i: int, j: int, cell: Whole) -> Grid:
        """The grid with an object on a free cell of room (i, j)."""
        left, top = self.corner(i, j)
        x, y = np.arange(self.side)[None, :] + left, np.arange(self.side)[:, None] + top
        middle_x, middle_y = self.middle
        is_near = np.abs(x - middle_x) + np.abs(y - middle_y) < 2
        room = grid[top : top + self.side, left : left + self.side]
        place = chosen(word, ((room == EMPTY) & ~is_near).reshape(-1))
        return put(grid, left + place % self.side, top + place // self.side, cell)

    def place_agent(self, grid: Grid, word: UInt32[Array, ""], i: int, j: int) -> Pose:
        """A pose on a free cell of room (i, j) that faces a free cell or a wall."""
        left, top = self.corner(i, j)
        framed = jnp.pad(grid, 1, constant_values=WALL)

        def room(dx: int, dy: int) -> Grid:
            return framed[top + 1 + dy :, left + 1 + dx :][: self.side, : self.side]

        is_free = room(0, 0) == EMPTY
        ahead = jnp.stack([room(dx, dy) for dx, dy in HEADINGS])
        is_allowed = is_free & ((ahead == EMPTY) | (ahead == WALL))
        place = chosen(word, is_allowed.reshape(-1))
        direction, place = place // self.side**2, place % self.side**2
        return Pose(left + place % self.side, top + place // self.side, direction)


class Doors(NamedTuple):
    """Places for doors, as distances from the corners of rooms.

    Attributes:
      rooms: the rooms between which they are.
      upright: of the walls between (i, j) and (i + 1, j): rows below the corner [j, i].
      level: of the walls between (i, j) and (i, j + 1): columns right of the corner [j, i].
    """

    rooms: RoomGrid
    upright: Int[Array, "rows columns-1"]
    level: Int[Array, "rows-1 columns"]

    def at(self, i: int, j: int, wall: int) -> tuple[Whole, Whole]:
        """The cell for a door in a wall of room (i, j)."""
        left, top = self.rooms.corner(i, j)
        far = self.rooms.side - 1
        if wall == RIGHT:
            return left + far, top + self.upright[j, i]
        if wall == LEFT:
            return left, top + self.upright[j, i - 1]
        if wall == BELOW:
            return left + self.level[j, i], top + far
        return left + self.level[j - 1, i], top
