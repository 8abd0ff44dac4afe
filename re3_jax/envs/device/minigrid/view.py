"""What an agent sees of any MiniGrid world: 7x7 cells in front of it, behind nothing opaque."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from re3_jax.envs.device.minigrid.codes import (
    DOOR,
    OPEN,
    UNSEEN,
    VIEW,
    WALL,
    Image,
    Scalar,
    door_state,
    image,
    kind,
)
from re3_jax.envs.device.minigrid.pose import AHEAD, RIGHTWARD, heading
from re3_jax.envs.device.minigrid.world import World, unpack_pose

_BITS = np.arange(VIEW, dtype=np.int32)[:, None]
_IS_AGENT = (RIGHTWARD == 0) & (AHEAD == 0)
_ROW = (1 << VIEW) - 1


def observe(world: World, width: int, height: int) -> Image:
    """Farama's `image`: the agent stands at [3, 6], faces row 0, and holds what it carries."""
    cells = window(world, width, height)
    visible = (lit(cells)[None, :] >> _BITS & 1) == 1
    cells = jnp.where(visible, cells, UNSEEN)
    return image(jnp.where(_IS_AGENT, world.carried, cells))


def window(world: World, width: int, height: int) -> Int[Array, "7 7"]:
    """The cells around the agent [column, row] as it faces them; those off the map are walls."""
    pose = unpack_pose(world.pose)
    dx, dy = heading(pose.direction)
    x = pose.x + AHEAD * dx - RIGHTWARD * dy
    y = pose.y + AHEAD * dy + RIGHTWARD * dx
    is_on_map = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    place = jnp.where(is_on_map, y * width + x, 0)
    return jnp.where(is_on_map, world.cells.at[place].get(mode="promise_in_bounds"), WALL)


def lit(cells: Int[Array, "7 7"]) -> Int[Array, " 7"]:
    """For each row of the view, a word whose bit i tells whether the cell in column i is seen.

    Farama's `process_vis` starts at the agent and goes through the rows, the nearest first. Light
    spreads through a row's transparent cells to the right, then to the left, and each lit
    transparent cell lights itself and its neighbours: in its own row, and in the row ahead, to the
    side to which light spread (the last column spreads no light to the right, the first none to
    the left).
    """
    is_opaque = (cells == WALL) | ((kind(cells) == DOOR) & (door_state(cells) != OPEN))
    transparent = jnp.sum(jnp.where(is_opaque, 0, 1 << _BITS), axis=0)
    rows: list[Scalar] = []
    here: Scalar | int = 1 << VIEW // 2
    for row in reversed(range(VIEW)):
        clear = transparent[row]
        here = _to_the_right(here, clear)
        rightward = here & clear & (_ROW >> 1)
        here = _to_the_left(here, clear)
        leftward = here & clear & (_ROW & ~1)
        rows.append(here)
        here = rightward | rightward << 1 | leftward | leftward >> 1
    return jnp.stack(rows[::-1])


def _to_the_right(light: Scalar | int, clear: Scalar) -> Scalar:
    # Adding the lit bits to a run of transparent ones carries through it, into the cell behind.
    return light | (((clear + (light & clear)) ^ clear) & _ROW)


def _to_the_left(light: Scalar, clear: Scalar) -> Scalar:
    through = clear
    for distance in (1, 2, 4):
        light |= (light & through) >> distance
        through &= through << distance
    return light
