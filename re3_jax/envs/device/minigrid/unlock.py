"""MiniGrid-Unlock, -UnlockPickup and -BlockedUnlockPickup: two rooms and a locked door."""

from jaxtyping import PRNGKeyArray

from re3_jax.envs.device.minigrid.codes import (
    BALL,
    BOX,
    COLOURS,
    DOOR,
    KEY,
    LOCKED,
    coloured,
)
from re3_jax.envs.device.minigrid.draws import draw_words, uniform
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.grids import put
from re3_jax.envs.device.minigrid.roomgrid import RIGHT, RoomGrid
from re3_jax.envs.device.minigrid.world import World, new_world

_ROOMS = RoomGrid(side=6, columns=2, rows=1)


def layouts(has_box: bool, is_blocked: bool) -> Layouts:
    """The door, the objects, their colours and the agent's pose are random.

    Args:
      has_box: the mission is to pick up a box in the other room, not to open the door.
      is_blocked: a ball is in front of the door.
    """

    def draw(key: PRNGKeyArray) -> tuple[bool, World]:
        words = draw_words(key, 8)
        grid = _ROOMS.walls()
        box = coloured(BOX, uniform(words[0], 0, 6))
        if has_box:
            grid = _ROOMS.place(grid, words[1], 1, 0, box)
        colour = uniform(words[2], 0, 6)
        x, y = _ROOMS.doors(words[3:4]).at(0, 0, RIGHT)
        grid = put(grid, x, y, coloured(DOOR, colour, LOCKED))
        if is_blocked:
            grid = put(grid, x - 1, y, coloured(BALL, uniform(words[4], 0, 6)))
        grid = _ROOMS.place(grid, words[5], 0, 0, coloured(KEY, colour))
        pose = _ROOMS.place_agent(grid, words[6], 0, 0)
        return True, new_world(grid, pose, box if has_box else coloured(DOOR, colour))

    missions = {
        coloured(BOX, number): f"pick up the {colour} box" for number, colour in enumerate(COLOURS)
    }
    if not has_box:
        missions = {coloured(DOOR, number): "open the door" for number in range(6)}
    steps = (16 if is_blocked else 8) * _ROOMS.side**2
    inside = _ROOMS.side - 2
    return Layouts(
        _ROOMS.width,
        _ROOMS.height,
        steps,
        missions,
        draw,
        # Opening the door of Unlock ends the episode before the agent is in it or in the room.
        num_unreachable=0 if has_box else inside * (inside + 1),
        doors=1,
        locks=1,
        carried=(KEY, BALL) if is_blocked else (KEY,),
    )
