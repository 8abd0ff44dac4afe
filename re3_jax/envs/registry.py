"""Tasks by name: the paper's by a bare name, everything else as `suite:id`."""

import dataclasses
from collections.abc import Callable, Mapping

from re3_jax.envs.base import DeviceEnv
from re3_jax.envs.device import minigrid
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

SUITES = ("minigrid", "gymnax", "brax", "pixels", "dmc", "atari")
"""The names before the colon of what this package has; `register` adds others."""

HOST_SUITES = ("dmc", "atari")
"""Suites whose environments run on the host: see `re3_jax.envs.host`, not `make`."""

_REGISTERED: dict[str, dict[str, Callable[[], DeviceEnv]]] = {}
"""Suite -> task -> what makes it, of suites that are registered from outside."""


def register(suite: str, tasks: Mapping[str, Callable[[], DeviceEnv]]) -> None:
    """Adds a suite of device environments.

    Args:
      suite: its name, before the colon.
      tasks: name after the colon -> function that makes the environment.

    Raises:
      ValueError: there is a suite of this name.
    """
    if suite in SUITES or suite in _REGISTERED:
        raise ValueError(f"there is a suite {suite} already: choose another name")
    _REGISTERED[suite] = dict(tasks)


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
        suites = ", ".join((*SUITES, *_REGISTERED))
        where = f"give SUITE:TASK; the suites are {suites}, and 'SUITE:' alone lists its tasks"
        raise unknown_name("task", task, _suggestions(), where)
    if name in _REGISTERED:
        if task_id not in _REGISTERED[name]:
            raise unknown_name(f"{name} task", task_id, _REGISTERED[name])
        return task
    if name not in SUITES:
        raise unknown_name("suite", name, (*SUITES, *_REGISTERED))
    if name == "minigrid":
        return f"minigrid:{minigrid.canonical(task_id)}"
    if name == "dmc":
        dmc_tasks.find(task_id)
    if name == "pixels" and task_id != "bar":
        raise unknown_name("pixels task", task_id, ["bar"])
    if name == "atari":
        return f"atari:{atari_games.find(task_id)}"
    return task


def suite(task: str) -> str:
    """The suite of `task`: one of `SUITES`, or one that was registered.

    Raises:
      ValueError: if there is no such task.
    """
    return canonical(task).partition(":")[0]


def is_host(task: str) -> bool:
    """Whether `task` runs on the host (`re3_jax.envs.host.make`) and not on the device (`make`).

    Raises:
      ValueError: if there is no such task.
    """
    return suite(task) in HOST_SUITES


def make(task: str) -> DeviceEnv:
    """The device environment called `task`.

    Args:
      task: a bare name of `PAPER_TASKS` or `OTHER_NAMES`, or `suite:id` (`minigrid:DoorKey-10x10`,
        `gymnax:CartPole-v1`, `brax:halfcheetah`).

    Raises:
      ValueError: if the task is not known (the message offers the nearest names) or runs on
        the host.
      ImportError: if the suite's package is missing; the message says what to install.
    """
    env = _make(task)
    if env.states is None:
        return env
    return env._replace(spec=dataclasses.replace(env.spec, num_states=env.states.num_counted))


def _make(task: str) -> DeviceEnv:
    name, _, task_id = canonical(task).partition(":")
    if name in HOST_SUITES:
        raise ValueError(
            f"{task} is stepped on the host, not on the device: make it with re3_jax.envs.host.make"
        )
    if name in _REGISTERED:
        return _REGISTERED[name][task_id]()
    if name == "minigrid":
        return minigrid.make(task_id)
    if name == "pixels":
        from re3_jax.envs.device import bar

        return bar.make()
    if name == "brax":
        from re3_jax.envs.device import brax

        return brax.make(task_id)
    from re3_jax.envs.device import gymnax

    return gymnax.make(task_id)


def _suggestions() -> list[str]:
    from re3_jax.envs.device import brax, gymnax

    known = [*PAPER_TASKS, *PAPER_TASKS.values(), *OTHER_NAMES, "pixels:bar"]
    known += [f"dmc:{name}" for name in dmc_tasks.names() if name not in PAPER_TASKS]
    known += [f"brax:{name}" for name in brax.TASKS]
    known += [f"atari:{name}" for name in atari_games.GAMES]
    known += [f"{suite}:{name}" for suite, tasks in _REGISTERED.items() for name in tasks]
    return [*known, *(f"gymnax:{name}" for name in gymnax.TASKS)]
