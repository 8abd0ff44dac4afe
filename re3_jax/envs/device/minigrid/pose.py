"""Where an agent stands and looks: directions are 0 right, 1 down, 2 left, 3 up."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from re3_jax.envs.base import CountableStates
from re3_jax.envs.device.minigrid.codes import LEFT, RIGHT, VIEW, Scalar

# View cells [column, row]: columns right of the agent, rows ahead of it.
RIGHTWARD = (np.arange(VIEW, dtype=np.int32) - VIEW // 2)[:, None]
AHEAD = (VIEW - 1 - np.arange(VIEW, dtype=np.int32))[None, :]


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


class Places(NamedTuple):
    """The agent's cells and directions in a task, whatever the layout.

    Attributes:
      width: columns of the grid within the outer walls.
      height: rows within them.
      word: state -> the agent's column in bits 0-7, row in bits 8-15, direction in bits 16-17;
        both count from the outer walls.
    """

    width: int
    height: int
    word: Callable[[Any], Scalar]

    def number(self, state: Any) -> Scalar:
        """The number of the agent's place, row by row and then by direction."""
        agent = self.word(state)
        column, row, direction = agent & 255, agent >> 8 & 255, agent >> 16 & 3
        return ((row - 1) * self.width + column - 1) * 4 + direction

    def countable(self, num_unreachable: int) -> CountableStates:
        """States numbered by place.

        Args:
          num_unreachable: cells within the outer walls at which the agent never acts, in no layout.
        """
        cells = self.width * self.height
        return CountableStates(self.number, 4 * cells, 4 * (cells - num_unreachable))
