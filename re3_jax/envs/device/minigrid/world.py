"""The state of any MiniGrid task: a grid of cells, the agent, and what it carries."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from re3_jax.envs.device.minigrid.codes import EMPTY, Scalar, Whole
from re3_jax.envs.device.minigrid.grids import Grid


class Pose(NamedTuple):
    """Where the agent is.

    Attributes:
      x: column, from the left.
      y: row, from the top.
      direction: 0 right, 1 down, 2 left, 3 up.
    """

    x: Scalar
    y: Scalar
    direction: Scalar


class World(NamedTuple):
    """State of one environment.

    Attributes:
      cells: the grid, int32 [height * width], row by row from the top; `codes` says what a cell is.
      pose: the packed `Pose` of the agent.
      carried: the cell of the object that the agent carries, `EMPTY` for none.
      mission: kind and colour of what the mission names: the object to pick up, the door to open,
        or the goal; `missions` has its text.
      agent_steps: agent steps since the episode began.
    """

    cells: Int[Array, " cell"]
    pose: Scalar
    carried: Scalar
    mission: Scalar
    agent_steps: Scalar


def pack_pose(pose: Pose) -> Scalar:
    """Packs a `Pose` into one int32."""
    return pose.x | pose.y << 8 | pose.direction << 16


def unpack_pose(word: Scalar) -> Pose:
    """Inverts `pack_pose`."""
    return Pose(word & 255, word >> 8 & 255, word >> 16)


def upper_left() -> Pose:
    """The pose in the upper left corner of a room, facing right."""
    return Pose(jnp.int32(1), jnp.int32(1), jnp.int32(0))


def new_world(grid: Grid, pose: Pose, mission: Whole) -> World:
    """The world at the beginning of an episode."""
    return World(
        cells=grid.reshape(-1).astype(jnp.int32),
        pose=jnp.asarray(pack_pose(pose), jnp.int32),
        carried=jnp.int32(EMPTY),
        mission=jnp.asarray(mission, jnp.int32),
        agent_steps=jnp.int32(0),
    )
