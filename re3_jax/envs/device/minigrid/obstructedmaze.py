"""MiniGrid-ObstructedMaze: locked doors, keys in boxes, balls in front of doors."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from re3_jax.envs.device.minigrid.codes import (
    BALL,
    BLUE,
    BOX,
    CLOSED,
    DOOR,
    GREEN,
    GREY,
    KEY,
    LOCKED,
    Scalar,
    box,
    coloured,
)
from re3_jax.envs.device.minigrid.draws import below, draw_words, ranks
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.grids import Grid, put
from re3_jax.envs.device.minigrid.roomgrid import HEADINGS, RIGHT, Doors, RoomGrid
from re3_jax.envs.device.minigrid.world import World, new_world

_SIDE = 6
_TARGET = coloured(BALL, BLUE)
_MISSIONS = {_TARGET: "pick up the blue ball"}
_MIDDLE = (1, 1)

# A room beside the middle one and a room in a corner for each quarter of the maze.
_SIDE_ROOMS = ((2, 1), (1, 2), (0, 1), (1, 0))
_CORNERS = ((2, 0), (2, 2), (0, 2), (0, 0))


def two_rooms(in_box: bool, is_blocked: bool) -> Layouts:
    """ObstructedMaze-1Dl: the ball is behind one locked door.

    Args:
      in_box: the key is in a box ("h" for hidden).
      is_blocked: a ball is in front of the door ("b").
    """
    rooms = RoomGrid(_SIDE, 2, 1)

    def draw(key: PRNGKeyArray) -> tuple[bool, World]:
        words = draw_words(key, 10)
        colour = ranks(words[:6])[0]
        doors = rooms.doors(words[6:7])
        grid = _lock(rooms.walls(), doors, 0, 0, RIGHT, colour, is_blocked)
        grid = rooms.place(grid, words[7], 0, 0, _key(colour, in_box))
        grid = rooms.place(grid, words[8], 1, 0, _TARGET)
        return True, new_world(grid, rooms.place_agent(grid, words[9], 0, 0), _TARGET)

    return Layouts(
        rooms.width,
        rooms.height,
        _agent_steps(2),
        _MISSIONS,
        draw,
        num_unreachable=0,
        doors=1,
        locks=1,
        carried=_carried(in_box, is_blocked),
    )


def nine_rooms(
    agent_room: tuple[int, int],
    in_box: bool,
    is_blocked: bool,
    quarters: int,
    visited: int,
    keys_last: bool,
) -> Layouts:
    """ObstructedMaze-2Dl, -1Q, -2Q and -Full: the ball is in a corner, behind two doors or three.

    Args:
      agent_room: column and row of the room in which the agent starts.
      in_box: keys are in boxes.
      is_blocked: balls are in front of the locked doors.
      quarters: 1 to 4; each has a room beside the middle, with two locked doors to corners.
      visited: rooms that an agent is expected to visit, of which the time limit is a multiple.
      keys_last: both keys of a room are placed after the balls in front of its doors (Farama's
        version 1). Otherwise the second ball may take the place of the first key, and the task
        may be impossible (version 0).
    """
    rooms = RoomGrid(_SIDE, 3, 3)

    def draw(key: PRNGKeyArray) -> tuple[bool, World]:
        words = draw_words(key, 2 * quarters + 6 + rooms.num_doors() + 3)
        of_keys, words = words[: 2 * quarters].reshape(quarters, 2), words[2 * quarters :]
        colours, doors = ranks(words[:6]), rooms.doors(words[6:-3])
        grid = rooms.walls()
        for quarter, room in enumerate(_SIDE_ROOMS[:quarters]):
            grid = put(grid, *doors.at(*_MIDDLE, quarter), coloured(DOOR, colours[quarter], CLOSED))
            keys = []
            for number, turn in enumerate((-1, 1)):
                colour = colours[(quarter + turn) % 6]
                grid = _lock(grid, doors, *room, (quarter + turn) % 4, colour, is_blocked)
                keys.append((of_keys[quarter, number], _key(colour, in_box)))
                if not keys_last:
                    grid = rooms.place(grid, keys[-1][0], *room, keys[-1][1])
            for word, cell in keys if keys_last else ():
                grid = rooms.place(grid, word, *room, cell)
        corner, _ = below(words[-3], quarters)
        for number, room in enumerate(_CORNERS[:quarters]):
            there = rooms.place(grid, words[-2], *room, _TARGET)
            grid = jnp.where(corner == number, there, grid)
        return True, new_world(grid, rooms.place_agent(grid, words[-1], *agent_room), _TARGET)

    # Rooms of other quarters have no door.
    num_rooms, num_doors = 1 + quarters + min(quarters + 1, len(_CORNERS)), 3 * quarters
    inside, all_inside = _SIDE - 2, (rooms.width - 2) * (rooms.height - 2)
    return Layouts(
        rooms.width,
        rooms.height,
        _agent_steps(visited),
        _MISSIONS,
        draw,
        num_unreachable=all_inside - inside * (inside * num_rooms + num_doors),
        doors=num_doors,
        locks=2 * quarters,
        carried=_carried(in_box, is_blocked),
    )


def _carried(in_box: bool, is_blocked: bool) -> tuple[int, ...]:
    return (KEY,) + (BALL,) * is_blocked + (BOX,) * in_box


def _agent_steps(visited: int) -> int:
    return 4 * visited * _SIDE**2


def _key(colour: Scalar, in_box: bool) -> Scalar:
    key = coloured(KEY, colour)
    return box(GREY, key) if in_box else key


def _lock(
    grid: Grid, doors: Doors, i: int, j: int, wall: int, colour: Scalar, is_blocked: bool
) -> Grid:
    """The grid with a locked door in a wall of room (i, j), and a ball in the room before it."""
    x, y = doors.at(i, j, wall)
    grid = put(grid, x, y, coloured(DOOR, colour, LOCKED))
    dx, dy = HEADINGS[wall]
    return put(grid, x - dx, y - dy, coloured(BALL, GREEN)) if is_blocked else grid
