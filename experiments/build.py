"""RunConfig -> the compiled program it describes."""

import jax

from experiments.config import RunConfig
from experiments.errors import UsageError
from re3_jax.agents.a2c.agent import make_a2c
from re3_jax.envs import registry
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.base import IntrinsicReward, none
from re3_jax.intrinsic.re3 import from_config
from re3_jax.training.seeds import Program, make_program


def make_environment(task: str) -> DeviceEnv:
    """The task.

    Raises:
      UsageError: it is not known, or its suite is not installed.
    """
    try:
        return registry.make(task)
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None


def make_bonus(config: RunConfig) -> IntrinsicReward:
    """The intrinsic reward."""
    return from_config(config.re3) if config.bonus == "re3" else none()


def build(config: RunConfig, env: DeviceEnv) -> Program:
    """The program of all seeds, spread over as many devices as divide them evenly.

    `config.chunk_updates` must be set.

    Raises:
      UsageError: a part refuses the configuration or the task.
    """
    assert config.chunk_updates is not None
    try:
        return make_program(
            env,
            make_a2c(config.a2c, env.spec),
            make_bonus(config),
            num_envs=config.a2c.num_envs,
            rollout_length=config.a2c.rollout_length,
            chunk_updates=config.chunk_updates,
            eval_episodes=config.evaluation.episodes,
            eval_greedy=config.evaluation.greedy,
            devices=devices_for(config.seeds),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def devices_for(seeds: int) -> list[jax.Device]:
    """The largest number of devices among which the seeds can be divided evenly."""
    devices = jax.devices()
    count = max(n for n in range(1, len(devices) + 1) if seeds % n == 0)
    return devices[:count]


def seed_numbers(config: RunConfig) -> list[int]:
    """The seeds of a run, in the order of the program's leading axis."""
    return [config.seed + i for i in range(config.seeds)]
