"""The tasks of MiniGrid by Farama's names."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from re3_jax.envs.base import DeviceEnv
from re3_jax.envs.device.minigrid import (
    crossing,
    doorkey,
    empty,
    environment,
    fourrooms,
    keycorridor,
    lavagap,
    multiroom,
    obstructedmaze,
    unlock,
)
from re3_jax.envs.device.minigrid.codes import LAVA, WALL
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.pose import Places
from re3_jax.envs.names import unknown_name

_MAZE = obstructedmaze.nine_rooms

TASKS: Mapping[str, Callable[[], Layouts]] = MappingProxyType(
    {
        "FourRooms": fourrooms.layouts,
        **{
            f"{kind}CrossingS{size}N{number}": partial(crossing.layouts, size, number, obstacle)
            for kind, obstacle in (("Simple", WALL), ("Lava", LAVA))
            for size, number in ((9, 1), (9, 2), (9, 3), (11, 5))
        },
        **{f"LavaGapS{size}": partial(lavagap.layouts, size) for size in (5, 6, 7)},
        "MultiRoom-N2-S4": partial(multiroom.layouts, 2, 4),
        "MultiRoom-N4-S5": partial(multiroom.layouts, 4, 5),
        # Version 0 has six rooms, whatever its name says.
        "MultiRoom-N4-S5-v0": partial(multiroom.layouts, 6, 5),
        "MultiRoom-N6": partial(multiroom.layouts, 6, 10),
        "Unlock": partial(unlock.layouts, has_box=False, is_blocked=False),
        "UnlockPickup": partial(unlock.layouts, has_box=True, is_blocked=False),
        "BlockedUnlockPickup": partial(unlock.layouts, has_box=True, is_blocked=True),
        **{
            f"KeyCorridorS{side}R{rows}": partial(keycorridor.layouts, side, rows)
            for side, rows in ((3, 1), (3, 2), (3, 3), (4, 3), (5, 3), (6, 3))
        },
        "ObstructedMaze-1Dl": partial(obstructedmaze.two_rooms, False, False),
        "ObstructedMaze-1Dlh": partial(obstructedmaze.two_rooms, True, False),
        "ObstructedMaze-1Dlhb": partial(obstructedmaze.two_rooms, True, True),
        "ObstructedMaze-2Dl": partial(_MAZE, (2, 1), False, False, 1, 4, False),
        "ObstructedMaze-2Dlh": partial(_MAZE, (2, 1), True, False, 1, 4, False),
        "ObstructedMaze-2Dlhb": partial(_MAZE, (2, 1), True, True, 1, 4, True),
        "ObstructedMaze-2Dlhb-v0": partial(_MAZE, (2, 1), True, True, 1, 4, False),
        "ObstructedMaze-1Q": partial(_MAZE, (1, 1), True, True, 1, 5, True),
        "ObstructedMaze-1Q-v0": partial(_MAZE, (1, 1), True, True, 1, 5, False),
        "ObstructedMaze-2Q": partial(_MAZE, (2, 1), True, True, 2, 11, True),
        "ObstructedMaze-2Q-v0": partial(_MAZE, (2, 1), True, True, 2, 11, False),
        "ObstructedMaze-Full": partial(_MAZE, (1, 1), True, True, 4, 25, True),
        "ObstructedMaze-Full-v0": partial(_MAZE, (1, 1), True, True, 4, 25, False),
    }
)
"""Farama's tasks with a grid -> their layouts. A name without a version is the newest of them."""

NEWEST_VERSION: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(
        ("MultiRoom-N4-S5", *(f"ObstructedMaze-{maze}" for maze in ("2Dlhb", "1Q", "2Q", "Full"))),
        1,
    )
)
"""Version of the tasks of which there are several; the others are version 0."""

_SQUARE = re.compile(r"(Empty|DoorKey)-(\d+)x(\d+)(?:-v0)?")
_PREFIX = "MiniGrid-"


def canonical(task_id: str) -> str:
    """The name of a task without `MiniGrid-` and without the number of its newest version.

    `make`, not this function, checks whether Empty and DoorKey can have the size in a name.

    Raises:
      ValueError: if there is no such task.
    """
    name = task_id.removeprefix(_PREFIX)
    if match := _SQUARE.fullmatch(name):
        return f"{match[1]}-{_side(match)}x{_side(match)}"
    unversioned, _, version = name.rpartition("-v")
    if version == f"{NEWEST_VERSION.get(unversioned, 0)}":
        name = unversioned
    if name not in TASKS:
        raise unknown_name("minigrid task", task_id, known())
    return name


def is_task(task_id: str) -> bool:
    """Whether there is a task of this name, or would be with another size."""
    if _SQUARE.fullmatch(task_id.removeprefix(_PREFIX)):
        return True
    try:
        return canonical(task_id) in TASKS
    except ValueError:
        return False


def known() -> list[str]:
    """Names of all tasks, with the sizes of Empty and DoorKey that Farama registers."""
    squares = [f"Empty-{size}x{size}" for size in (5, 6, 8, 16)]
    return [*squares, *(f"DoorKey-{size}x{size}" for size in (5, 6, 8, 16)), *TASKS]


def short_name(task_id: str) -> str:
    """A name for the command line: `keycorridor_s3r3` for `KeyCorridorS3R3`."""
    return re.sub(r"(?<=[a-z])(?=S\d)", "-", task_id).lower().replace("-", "_")


def make(task_id: str) -> DeviceEnv:
    """The environment `task_id`, such as `DoorKey-8x8` or `MiniGrid-MultiRoom-N6-v0`.

    Raises:
      ValueError: if there is no such task, or none of such a size.
    """
    name = canonical(task_id)
    if match := _SQUARE.fullmatch(name):
        return (empty if match[1] == "Empty" else doorkey).make(_side(match))
    return environment.make(name, TASKS[name]())


def places(task_id: str) -> Places:
    """Where the agent is in a state of a task.

    Raises:
      ValueError: if there is no such task.
    """
    name = canonical(task_id)
    if match := _SQUARE.fullmatch(name):
        return (empty if match[1] == "Empty" else doorkey).places(_side(match))
    return environment.places(TASKS[name]())


def missions(task_id: str) -> Mapping[int, str]:
    """Farama's text for each value of `World.mission` in a task with a grid.

    Raises:
      ValueError: if there is no such task, or it is an Empty or a DoorKey, which have one mission.
    """
    name = canonical(task_id)
    if name not in TASKS:
        raise ValueError(f"minigrid:{name} has one mission, and no number of it")
    return TASKS[name]().missions


def _side(match: re.Match[str]) -> int:
    kind, width, height = match[1], int(match[2]), int(match[3])
    if width != height:
        raise ValueError(
            f"minigrid:{kind}-{width}x{height} cannot be made; grids are square, such as "
            f"minigrid:{kind}-8x8"
        )
    return width
