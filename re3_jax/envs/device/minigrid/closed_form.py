"""What Empty and DoorKey share: square rooms whose state is a few packed words, without a grid.

The content and visibility of each view cell are computed from the positions of walls, door, key and
goal relative to the agent. On a CPU, kernel launches dominate the cost of an environment step, so a
few small arrays beat a grid that is sliced, rotated and scanned.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from re3_jax.envs.device.minigrid.codes import EMPTY, GOAL, VIEW, WALL, Scalar
from re3_jax.envs.device.minigrid.pose import AHEAD, RIGHTWARD, heading

Projection = Callable[[Scalar | int, Scalar | int], tuple[Scalar, Scalar]]

LARGEST_SIZE = 128
"""Coordinates are packed into fields of 8 bits, and layouts drawn from 64 random bits."""

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


def pack_agent(agent: Agent) -> Scalar:
    """Packs an `Agent` into one int32."""
    return agent.x | agent.y << 8 | agent.direction << 16 | agent.carrying << 18 | agent.door << 19


def unpack_agent(word: Scalar) -> Agent:
    """Inverts `pack_agent`."""
    return Agent(word & 255, word >> 8 & 255, word >> 16 & 3, word >> 18 & 1, word >> 19)


def projection(agent: Agent) -> Projection:
    """Returns the map from a cell (x, y) to (rows ahead, columns right) of the agent."""
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


def on_border(x: Scalar, y: Scalar, size: int) -> Bool[Array, ""]:
    """Whether (x, y) lies in the outer walls."""
    last = size - 1
    return (x == 0) | (x == last) | (y == 0) | (y == last)
