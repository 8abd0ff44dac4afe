"""MiniGrid-KeyCorridor: a ball in a locked room, the key in one of the rooms across a corridor."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, UInt32

from re3_jax.envs.device.minigrid.codes import (
    BALL,
    CLOSED,
    COLOURS,
    DOOR,
    EMPTY,
    KEY,
    LOCKED,
    Scalar,
    coloured,
)
from re3_jax.envs.device.minigrid.draws import draw_words, uniform
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.grids import put
from re3_jax.envs.device.minigrid.roomgrid import BELOW, RIGHT, RoomGrid
from re3_jax.envs.device.minigrid.world import World, new_world

_NEVER = np.uint32(0xFFFFFFFF)


def layouts(side: int, rows: int) -> Layouts:
    """The rooms of ball and key, doors, colours and the agent's pose are random.

    Args:
      side: cells along a side of a room, its walls included.
      rows: of rooms on either side of the corridor.
    """
    rooms = RoomGrid(side, 3, rows)
    num_doors = rooms.num_doors()
    walls = rooms.walls()
    for row in range(1, rows):
        walls = walls.at[row * (side - 1), side : 2 * side - 2].set(EMPTY)

    def draw(key: PRNGKeyArray) -> tuple[bool, World]:
        words = draw_words(key, 9 + 3 * num_doors)
        of_places, of_order, of_colours, of_rest = jnp.split(
            words, [num_doors, 2 * num_doors, 3 * num_doors]
        )
        doors = rooms.doors(of_places)
        colours = uniform(of_colours, 0, 6)
        locked_row, key_row = uniform(of_rest[:2], 0, rows)
        colour, ball_colour = uniform(of_rest[2:4], 0, 6)

        ball = coloured(BALL, ball_colour)

        def in_room(words: UInt32[Array, " 2"], i: int, j: Scalar) -> tuple[Scalar, Scalar]:
            # Every cell of the room is free and none is near the middle of the corridor.
            x, y = uniform(words, 1, side - 1)
            return i * (side - 1) + x, j * (side - 1) + y

        locked_y = locked_row * (side - 1) + doors.upright[locked_row, 1]
        grid = put(walls, 2 * (side - 1), locked_y, coloured(DOOR, colour, LOCKED))
        grid = put(grid, *in_room(of_rest[4:6], 2, locked_row), ball)
        grid = put(grid, *in_room(of_rest[6:8], 0, key_row), coloured(KEY, colour))
        pose = rooms.place_agent(grid, of_rest[8], 1, rows // 2)

        is_there = connecting(of_order, locked_row, rows)
        for number, (i, j, wall) in enumerate(_doors(rows)):
            if (i, wall) != (1, BELOW):
                x, y = doors.at(i, j, wall)
                there = put(grid, x, y, coloured(DOOR, colours[number], CLOSED))
                grid = jnp.where(is_there[number], there, grid)
        return True, new_world(grid, pose, ball)

    missions = {
        coloured(BALL, number): f"pick up the {colour} ball"
        for number, colour in enumerate(COLOURS)
    }
    # Always wall: where rooms meet; between two rows, beside a locked room. Always the ball's: the
    # only cell of the only locked room.
    num_unreachable = 2 * (rows - 1) + (rows == 2) * (side - 2) + (rows == 1 and side == 3)
    return Layouts(
        rooms.width,
        rooms.height,
        30 * side**2,
        missions,
        draw,
        num_unreachable,
        doors=num_doors,
        locks=1,
        carried=(KEY,),
    )


def _doors(rows: int) -> list[tuple[int, int, int]]:
    """Each possible door as (column, row, wall) of a room, in the order of `RoomGrid.doors`."""
    upright = [(i, j, RIGHT) for j in range(rows) for i in range(2)]
    return upright + [(i, j, BELOW) for j in range(rows - 1) for i in range(3)]


def connecting(
    words: UInt32[Array, " door"], locked_row: Scalar, rows: int
) -> Bool[Array, " door"]:
    """Which doors are added until every room can be reached, the locked room apart.

    Farama's generator adds doors at random places, none of them to the locked room, until all rooms
    are connected. So the doors come in a random order, here that of their words, and a door is
    added if it is not after the one that connects the last room. For each room, the word of the
    door that connects it is the smallest, over all paths from the corridor, of the largest word on
    the path.
    """
    is_locked = jnp.arange(rows) == locked_row
    beside_locked = is_locked[:-1] | is_locked[1:]
    upright, level = words[: 2 * rows].reshape(rows, 2), words[2 * rows :].reshape(rows - 1, 3)
    # There is no wall between two parts of the corridor, and never a second door to a locked room.
    upright = upright.at[:, 1].set(jnp.where(is_locked, _NEVER, upright[:, 1]))
    level = level.at[:, 1].set(_NEVER)
    level = level.at[:, 2].set(jnp.where(beside_locked, _NEVER, level[:, 2]))

    last = jnp.uint32(0)
    for from_corridor, between in ((upright[:, 0], level[:, 0]), (upright[:, 1], level[:, 2])):
        best = list(from_corridor)
        for row in range(1, rows):
            best[row] = jnp.minimum(best[row], jnp.maximum(best[row - 1], between[row - 1]))
        for row in reversed(range(rows - 1)):
            best[row] = jnp.minimum(best[row], jnp.maximum(best[row + 1], between[row]))
        words_of_rooms = jnp.stack(best)
        last = jnp.maximum(last, jnp.max(jnp.where(words_of_rooms == _NEVER, 0, words_of_rooms)))
    return jnp.concatenate([upright.reshape(-1), level.reshape(-1)]) <= last
