"""Parts of grids [row, column] that layouts are made of."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from re3_jax.envs.device.minigrid.codes import EMPTY, GOAL, WALL, Whole

Grid = Int[Array, "height width"]


def columns_and_rows(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """The column [1, width] and the row [height, 1] of each cell."""
    return np.arange(width)[None, :], np.arange(height)[:, None]


def room_with_goal(size: int) -> np.ndarray:
    """A square room with walls around it and the goal in its lower right corner."""
    grid = np.full((size, size), WALL, np.int32)
    grid[1:-1, 1:-1] = EMPTY
    grid[-2, -2] = GOAL
    return grid


def put(grid: Grid, x: Whole, y: Whole, cell: Whole) -> Grid:
    """The grid with one other cell."""
    columns, rows = columns_and_rows(*grid.shape[::-1])
    return jnp.where((columns == x) & (rows == y), cell, grid)
