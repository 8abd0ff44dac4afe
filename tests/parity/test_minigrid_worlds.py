"""Every object and action of MiniGrid on the device against Farama's `minigrid`."""

import re
from typing import Any

import jax.numpy as jnp
import pytest
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Box, Door, Floor, Goal, Key, Lava, Wall, WorldObj
from minigrid.minigrid_env import MiniGridEnv

from re3_jax.envs.base import DeviceEnv
from re3_jax.envs.device import minigrid
from re3_jax.envs.device.minigrid import environment
from re3_jax.envs.device.minigrid.codes import COLOURS, GOAL
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.world import new_world, upper_left
from tests.farama_worlds import EPISODES, farama_env, require, walk_beside

SIZE, TIME_LIMIT = 9, 60


class LumberRoom(MiniGridEnv):
    """A room in which every third cell has some object; most keys fit most locks."""

    def __init__(self) -> None:
        mission = MissionSpace(lambda: "reach the goal")
        super().__init__(mission, grid_size=SIZE, max_steps=TIME_LIMIT)

    def _gen_grid(self, width: int, height: int) -> None:
        self.grid = Grid(width, height)
        self.grid.wall_rect(0, 0, width, height)
        self.usual = self._rand_elem(COLOURS)
        for _ in range((width - 2) * (height - 2) // 3):
            self.place_obj(self._something())
        self.place_agent()

    def _something(self) -> WorldObj:
        colour = self._rand_elem([self.usual] * 6 + list(COLOURS))
        state = self._rand_int(0, 3)
        door = Door(colour, is_open=state == 0, is_locked=state == 2)
        things = [Key(colour), Ball(colour), door, door, Floor(colour), Goal(), Lava(), Wall()]
        content = self._rand_elem([None, Key(colour), Ball(COLOURS[state]), Box(colour)])
        if self._rand_int(0, 4) == 0:
            return Box(self._rand_elem(COLOURS), content)
        return self._rand_elem(things)


EVERY_EVENT = {
    **{f"action {action}": 100 for action in range(7)},
    **{f"{kind} picked up": 20 for kind in ("key", "ball", "box")},
    **{f"{kind} dropped": 20 for kind in ("key", "ball", "box")},
    **{f"box with {kind} opened": 5 for kind in ("key", "ball", "box")},
    **{f"door {before} toggled to {after}": 8 for before, after in ("01", "10", "22")},
    "door 2 toggled to 0": 4,
    "doorway entered": 10,
    "empty box opened": 5,
    "hands full": 20,
    "no room to drop": 20,
    "success": 10,
    "lava": 10,
    "time limit": 10,
}


def stepping_only(name: str, layouts: Layouts) -> DeviceEnv:
    """The environment without its layouts, which are compared in `test_minigrid_grids`."""

    def draw(key: Any) -> Any:
        return True, new_world(jnp.ones((layouts.height, layouts.width)), upper_left(), GOAL)

    return environment.make(name, layouts._replace(draw=draw))


@pytest.mark.parametrize(
    ("lanes", "agent_steps"), [(48, 100), pytest.param(100, 500, marks=pytest.mark.slow)]
)
def test_every_object_and_action_equals_farama(lanes: int, agent_steps: int) -> None:
    layouts = Layouts(SIZE, SIZE, TIME_LIMIT, {}, lambda key: key, num_unreachable=0)
    device = stepping_only("LumberRoom", layouts)
    events = walk_beside(device, [LumberRoom() for _ in range(lanes)], agent_steps, seed=1)
    require(events, EVERY_EVENT)


EVENTS_OF = {
    "Crossing|FourRooms|LavaGap": ("action 3", "action 4", "action 5"),
    "Lava": ("lava",),
    "MultiRoom|KeyCorridor": ("doorway entered", "door 0 toggled to 1", "door 1 toggled to 0"),
    "Unlock|KeyCorridor|ObstructedMaze": ("door 2 toggled to 0", "door 2 toggled to 2"),
    "Blocked|KeyCorridor": ("ball picked up", "key dropped"),
    "ObstructedMaze-.*h": ("box with key opened", "box picked up", "box dropped"),
}
"""Pattern of tasks -> what happens in them, or the comparison means nothing."""

FAST = ("KeyCorridorS3R3", "LavaCrossingS9N1", "ObstructedMaze-1Dlhb")


@pytest.mark.parametrize(
    ("name", "lanes", "agent_steps", "episodes"),
    [(name, 32, 60, 32) for name in FAST]
    + [
        pytest.param(name, *size, marks=pytest.mark.slow)
        for name in minigrid.TASKS
        for size in ((32, 200, 32), (2000, 40, EPISODES))
    ],
)
def test_every_task_equals_farama(name: str, lanes: int, agent_steps: int, episodes: int) -> None:
    """The slow tests walk through at least 2,000 distinct episodes of each task."""
    farama = [farama_env(name) for _ in range(lanes)]
    device = stepping_only(name, minigrid.TASKS[name]())
    events = walk_beside(device, farama, agent_steps, seed=agent_steps)
    needed = ["success"]
    for pattern, names in EVENTS_OF.items():
        needed += names if re.search(pattern, name) else ()
    require(events, dict.fromkeys(needed, lanes * agent_steps // 1920))
    require(events, {"distinct episodes": episodes})
