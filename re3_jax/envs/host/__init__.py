"""Environments that run on the host, and the function that makes them (io).

Worker processes import this package, so it imports no JAX before `make` is called.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from re3_jax.envs.host import renderer, tasks
from re3_jax.envs.host.config import AtariConfig, DMCConfig, RendererName
from re3_jax.envs.names import pip_install

if TYPE_CHECKING:
    from re3_jax.envs.host.base import HostEnv


def make(
    task_id: str,
    config: DMCConfig | AtariConfig,
    num_lanes: int,
    report: Callable[[str], None] = print,
) -> HostEnv:
    """Lanes of a DeepMind Control task, or of an Atari game.

    Args:
      task_id: dm_control's domain and task joined by `_`, or a sparse task of the paper; the
        name of a game if `config` is an `AtariConfig`.
      config: how to step and draw the task.
      num_lanes: episodes stepped together.
      report: called with a sentence when something happens to a lane (a worker was replaced).

    Raises:
      ValueError: if there is no such task, if the requested renderer does not work here or cannot
        draw this task, or if there are no lanes; the message says what to do.
      ImportError: if the engine is not installed; the message says how to install it.
      LostWorkers: if a worker process does not start.
    """
    if num_lanes < 1:
        raise ValueError(f"num_lanes must be at least 1, but it is {num_lanes}")
    if isinstance(config, AtariConfig):
        from re3_jax.envs.host.atari import AtariLanes

        return AtariLanes(task_id, config, num_lanes, report)
    tasks.find(task_id)
    chosen = drawn_by(task_id, config)
    if config.engine == "envpool":
        from re3_jax.envs.host.envpool import EnvPoolLanes

        return EnvPoolLanes(task_id, config, num_lanes, report)
    from re3_jax.envs.host.lanes import DMCLanes

    return DMCLanes(task_id, config, num_lanes, chosen, report)


def drawn_by(task_id: str, config: DMCConfig) -> RendererName:
    """What draws a task of DeepMind Control here; starts no lanes.

    Raises:
      ValueError: if nothing here can draw it, or not as `config` says; the message says what to do.
      ImportError: if the engine is not installed; the message says how to install it.
    """
    if config.engine == "envpool":
        from re3_jax.envs.host import envpool

        envpool.check_drawing()
        return "gl" if config.renderer == "auto" else config.renderer
    check_dm_control()
    name = renderer.choose(config)
    renderer.check(name, task_id)
    return name


def check_dm_control() -> None:
    """Raises ImportError if a package of DeepMind Control is not installed."""
    try:
        importlib.metadata.version("dm_control")
        mujoco = importlib.metadata.version("mujoco")
    except importlib.metadata.PackageNotFoundError as error:
        raise ImportError(
            f"DeepMind Control needs dm_control and MuJoCo; install it with {_remedy()}"
        ) from error
    if int(mujoco.split(".")[0]) >= 4:
        raise ImportError(
            f"dm_control does not work with MuJoCo {mujoco}; install it with {_remedy()}"
        )


def _remedy() -> str:
    if sys.version_info >= (3, 13):
        # dm_control also asks for labmaze, which has no wheel there; the extra has the rest.
        dependencies = pip_install("re3_jax[dmc]")
        alone = pip_install("--no-deps", "dm_control==1.0.50", "mujoco==3.17.0")
        return f"{dependencies} && {alone}"
    return pip_install("dm_control==1.0.50", "mujoco==3.17.0")
