"""Where an agent stands and looks: directions are 0 right, 1 down, 2 left, 3 up."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from re3_jax.envs.base import CountableStates
from re3_jax.envs.device.minigrid.codes import LEFT, RIGHT, Scalar


def heading(direction: Scalar) -> tuple[Scalar, Scalar]:
    """Columns and rows that one step forward adds."""
    vertical = (direction & 1) == 1
    return jnp.where(vertical, 0, 1 - direction), jnp.where(vertical, 2 - direction, 0)


def front_cell(x: Scalar, y: Scalar, direction: Scalar) -> tuple[Scalar, Scalar]:
    """The cell (column, row) that an agent at column x and row y faces."""
    dx, dy = heading(direction)
    return x + dx, y + dy


def turned(direction: Scalar, action: Scalar) -> Scalar:
    """The direction after an action."""
    right = (action == RIGHT).astype(jnp.int32)
    left = (action == LEFT).astype(jnp.int32)
    return (direction + right - left) & 3


def cells_and_directions(
    size: int, num_unreachable: int, word: Callable[[Any], Scalar]
) -> CountableStates:
    """Numbers states by the agent's cell and direction, whatever the layout.

    Args:
      size: width and height of the grid in cells, the outer walls included.
      num_unreachable: cells within them at which the agent never acts, in no layout.
      word: state -> the agent's column in bits 0-7, row in bits 8-15, direction in bits 16-17.
    """
    width = size - 2

    def number(state: Any) -> Scalar:
        agent = word(state)
        column, row, direction = agent & 255, agent >> 8 & 255, agent >> 16 & 3
        return ((row - 1) * width + column - 1) * 4 + direction

    return CountableStates(number, 4 * width**2, 4 * (width**2 - num_unreachable))
