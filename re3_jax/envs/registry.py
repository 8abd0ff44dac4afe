"""Tasks by name: the paper's by a bare name, everything else as `suite:id`."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from re3_jax.envs.base import DeviceEnv
from re3_jax.envs.device import bar, brax, gymnax, minigrid
from re3_jax.envs.host import atari_games
from re3_jax.envs.host import tasks as dmc_tasks
from re3_jax.envs.names import unknown_name

PAPER_TASKS = {
    "empty_16x16": "minigrid:Empty-16x16",
    "doorkey_6x6": "minigrid:DoorKey-6x6",
    "doorkey_8x8": "minigrid:DoorKey-8x8",
    **{name: f"dmc:{name}" for name in dmc_tasks.PAPER_TASKS},
    **{name: f"atari:{name}" for name in atari_games.PAPER_GAMES},
}
"""Bare name of each task of the paper, but for two games that a picture alone names -> canonical
name."""

OTHER_NAMES = {
    minigrid.short_name(task): f"minigrid:{task}" for task in ("DoorKey-16x16", *minigrid.TASKS)
}
"""Bare name -> canonical name of the tasks of MiniGrid that the paper does not have."""


class Tasks(NamedTuple):
    """The tasks of a suite.

    Attributes:
      names: what to suggest where a name is not known.
      find: a name after the colon -> its canonical form; raises ValueError for an unknown one.
      make: that name -> the environment; None for a suite whose environments run on the host (see
        `re3_jax.envs.host`).
    """

    names: Iterable[str]
    find: Callable[[str], str]
    make: Callable[[str], DeviceEnv] | None


def _among(kind: str, names: Iterable[str]) -> Callable[[str], str]:
    """Finds a name that must be one of `names` as it is."""

    def find(task_id: str) -> str:
        if task_id not in names:
            raise unknown_name(kind, task_id, names)
        return task_id

    return find


def _find_dmc(task_id: str) -> str:
    dmc_tasks.find(task_id)
    return task_id


SUITES = {
    "minigrid": Tasks((), minigrid.canonical, minigrid.make),
    # The packages of these two, which may be missing, know their names.
    "gymnax": Tasks(gymnax.TASKS, str, gymnax.make),
    "brax": Tasks(brax.TASKS, str, brax.make),
    "pixels": Tasks(["bar"], _among("pixels task", ["bar"]), lambda _: bar.make()),
    "dmc": Tasks(dmc_tasks.names(), _find_dmc, None),
    "atari": Tasks(atari_games.GAMES, atari_games.find, None),
}
"""Name before the colon -> tasks, of this package's suites and of those that are registered."""


def register(suite: str, tasks: Mapping[str, Callable[[], DeviceEnv]]) -> None:
    """Adds a suite of device environments.

    Args:
      suite: its name, before the colon.
      tasks: name after the colon -> function that makes the environment.

    Raises:
      ValueError: there is a suite of this name.
    """
    made = dict(tasks)
    _add(suite, Tasks(made, _among(f"{suite} task", made), lambda task_id: made[task_id]()))


def register_host(suite: str, tasks: Iterable[str]) -> None:
    """Adds a suite of environments on the host; `HostSuite.make` of `re3_jax.runs` makes them.

    Args:
      suite: its name, before the colon.
      tasks: the names after the colon.

    Raises:
      ValueError: there is a suite of this name.
    """
    names = tuple(tasks)
    _add(suite, Tasks(names, _among(f"{suite} task", names), None))


def _add(suite: str, tasks: Tasks) -> None:
    if suite in SUITES:
        raise ValueError(f"there is a suite {suite} already: choose another name")
    SUITES[suite] = tasks


def canonical(task: str) -> str:
    """The `suite:id` that `task` stands for.

    `doorkey_6x6`, `MiniGrid-DoorKey-6x6-v0` and `minigrid:MiniGrid-DoorKey-6x6-v0` all
    stand for `minigrid:DoorKey-6x6`. `make`, not this function, checks whether MiniGrid has a grid
    of that size, and checks the ids of gymnax and brax, which may not be installed.

    Raises:
      ValueError: if there is no such suite or no such task in it.
    """
    bare = PAPER_TASKS | OTHER_NAMES
    if task in bare:
        return bare[task]
    name, colon, task_id = task.partition(":")
    if not colon:
        if minigrid.is_task(task):
            return canonical(f"minigrid:{task}")
        suites = ", ".join(SUITES)
        where = f"give SUITE:TASK; the suites are {suites}, and 'SUITE:' alone lists its tasks"
        raise unknown_name("task", task, _suggestions(), where)
    if name not in SUITES:
        raise unknown_name("suite", name, SUITES)
    return f"{name}:{SUITES[name].find(task_id)}"


def suite(task: str) -> str:
    """The suite of `task`, a key of `SUITES`.

    Raises:
      ValueError: if there is no such task.
    """
    return canonical(task).partition(":")[0]


def is_host(task: str) -> bool:
    """Whether `task` runs on the host (`re3_jax.envs.host`) and not on the device (`make`).

    Raises:
      ValueError: if there is no such task.
    """
    return SUITES[suite(task)].make is None


def make(task: str) -> DeviceEnv:
    """The device environment called `task`.

    Args:
      task: a bare name of `PAPER_TASKS` or `OTHER_NAMES`, or `suite:id` (`minigrid:DoorKey-10x10`,
        `gymnax:CartPole-v1`, `brax:halfcheetah`).

    Raises:
      ValueError: if the task is not known (the message offers the nearest names), runs on the
        host, or is made by a function that returns no `DeviceEnv`.
      ImportError: if the suite's package is missing; the message says what to install.
    """
    name, _, task_id = canonical(task).partition(":")
    make_task = SUITES[name].make
    if make_task is None:
        raise ValueError(f"{task} is stepped on the host, not on the device: see re3_jax.envs.host")
    env = make_task(task_id)
    if not isinstance(env, DeviceEnv):
        raise ValueError(
            f"the function registered for {task} returns a {type(env).__name__}: return a "
            "re3_jax.envs.base.DeviceEnv"
        )
    if env.states is None:
        return env
    return env._replace(spec=dataclasses.replace(env.spec, num_states=env.states.num_counted))


def _suggestions() -> list[str]:
    bare = [*PAPER_TASKS, *PAPER_TASKS.values(), *OTHER_NAMES]
    known = [f"{suite}:{name}" for suite, tasks in SUITES.items() for name in tasks.names]
    return [*bare, *(name for name in known if name not in bare)]
