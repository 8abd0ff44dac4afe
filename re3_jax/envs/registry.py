"""Tasks by name: the paper's by a bare name, everything else as `suite:id`."""

import re

from re3_jax.envs.base import DeviceEnv
from re3_jax.envs.names import unknown_name

PAPER_TASKS = {
    "empty_16x16": "minigrid:Empty-16x16",
    "doorkey_6x6": "minigrid:DoorKey-6x6",
    "doorkey_8x8": "minigrid:DoorKey-8x8",
}
"""Bare name of each task of the paper -> canonical name."""

SUITES = ("minigrid", "gymnax")
"""What may stand before the colon."""

_MINIGRID_ID = re.compile(r"(?:MiniGrid-)?(Empty|DoorKey)-(\d+)x(\d+)(?:-v0)?")


def canonical(task: str) -> str:
    """The `suite:id` that `task` stands for.

    `doorkey_6x6`, `MiniGrid-DoorKey-6x6-v0` and `minigrid:MiniGrid-DoorKey-6x6-v0` all
    stand for `minigrid:DoorKey-6x6`. Whether MiniGrid has a grid of that size is checked by
    `make`, not here, and so is a gymnax id, because gymnax may not be installed.

    Raises:
      ValueError: if there is no such suite or no such task in it.
    """
    if task in PAPER_TASKS:
        return PAPER_TASKS[task]
    suite, colon, task_id = task.partition(":")
    if not colon:
        if _MINIGRID_ID.fullmatch(task):
            return canonical(f"minigrid:{task}")
        raise unknown_name("task", task, _suggestions())
    if suite not in SUITES:
        raise unknown_name("suite", suite, SUITES)
    if suite == "minigrid":
        kind, size = _parse_minigrid(task_id)
        return f"minigrid:{kind}-{size}x{size}"
    return task


def make(task: str) -> DeviceEnv:
    """The environment called `task`.

    Args:
      task: a bare name of `PAPER_TASKS` or `suite:id` (`minigrid:DoorKey-10x10`,
        `gymnax:CartPole-v1`).

    Raises:
      ValueError: if the task is not known; the message offers the nearest names.
      ImportError: if the suite's package is missing; the message says what to install.
    """
    suite, _, task_id = canonical(task).partition(":")
    if suite == "minigrid":
        from re3_jax.envs.device import minigrid

        kind, size = _parse_minigrid(task_id)
        return minigrid.make("empty" if kind == "Empty" else "doorkey", size)
    from re3_jax.envs.device import gymnax

    return gymnax.make(task_id)


def _parse_minigrid(task_id: str) -> tuple[str, int]:
    match = _MINIGRID_ID.fullmatch(task_id)
    if match is None:
        known = [name.partition(":")[2] for name in PAPER_TASKS.values()]
        raise unknown_name("minigrid task", task_id, known)
    kind, width, height = match[1], int(match[2]), int(match[3])
    if width != height:
        raise ValueError(
            f"minigrid:{kind}-{width}x{height} cannot be made; grids are square, such as "
            f"minigrid:{kind}-8x8"
        )
    return kind, width


def _suggestions() -> list[str]:
    from re3_jax.envs.device import gymnax

    known = [*PAPER_TASKS, *PAPER_TASKS.values()]
    try:
        return [*known, *(f"gymnax:{name}" for name in gymnax.ids())]
    except ImportError:
        return known
