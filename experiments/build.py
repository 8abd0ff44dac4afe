"""RunConfig -> what trains it."""

import dataclasses
from collections.abc import Callable

import jax

from experiments import machine
from experiments.config import OFF_POLICY, RunConfig
from experiments.errors import UsageError
from re3_jax.agents.a2c.agent import make_a2c
from re3_jax.agents.sac.agent import make_sac
from re3_jax.envs import host, registry
from re3_jax.envs.base import DeviceEnv, EnvSpec
from re3_jax.envs.host import dmc, renderer
from re3_jax.intrinsic.base import IntrinsicReward, none
from re3_jax.intrinsic.re3 import from_config
from re3_jax.training.host_loop import HostLoopConfig, HostProgram
from re3_jax.training.off_policy_loop import make_off_policy_program
from re3_jax.training.runner import DeviceRunner, Runner
from re3_jax.training.seeds import Program, make_program


def task_spec(config: RunConfig) -> EnvSpec:
    """What the task looks like to an agent.

    Raises:
      UsageError: it is not known, or its suite is not installed.
    """
    if not _is_host(config):
        return make_environment(config.env).spec
    try:
        return dmc.spec(_host_task(config), config.dmc)
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None


def make_environment(task: str) -> DeviceEnv:
    """A task that lives on the device.

    Raises:
      UsageError: it is not known, or its suite is not installed.
    """
    try:
        return registry.make(task)
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None


def settle_renderer(config: RunConfig) -> RunConfig:
    """The configuration with the renderer that `auto` means here.

    Raises:
      UsageError: the renderer asked for cannot work on this machine.
    """
    if not _is_host(config):
        return config
    try:
        chosen = renderer.choose(config.dmc)
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None
    return dataclasses.replace(config, dmc=dataclasses.replace(config.dmc, renderer=chosen))


def make_bonus(config: RunConfig) -> IntrinsicReward:
    """The intrinsic reward; off-policy it keeps one latent per transition of the replay."""
    if config.bonus == "none":
        return none()
    if config.agent in OFF_POLICY:
        return from_config(dataclasses.replace(config.re3, ring_size=config.sac.replay_capacity))
    return from_config(config.re3)


def build(config: RunConfig, spec: EnvSpec, report: Callable[[str], None]) -> Runner:
    """What trains all seeds, spread over as many devices as divide them evenly.

    `config.chunk_updates` must be set. `report` is told in one sentence of what the lanes of
    the host go through.

    Raises:
      UsageError: a part refuses the configuration or the task.
    """
    assert config.chunk_updates is not None
    if not _is_host(config):
        program = device_program(config, make_environment(config.env))
        return DeviceRunner(program, config.seeds)
    return host_program(config, spec, report)


def host_program(config: RunConfig, spec: EnvSpec, report: Callable[[str], None]) -> HostProgram:
    """As `build`, for a task whose lanes are on the host."""
    try:
        return _host_program(config, spec, report)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _host_program(config: RunConfig, spec: EnvSpec, report: Callable[[str], None]) -> HostProgram:
    sac, evaluation = config.sac, config.evaluation
    assert config.chunk_updates is not None
    return HostProgram(
        spec,
        make_sac(sac, spec),
        make_bonus(config),
        HostLoopConfig(
            frame_stack=config.dmc.frame_stack,
            batch_size=sac.batch_size,
            replay_capacity=sac.replay_capacity,
            initial_agent_steps=sac.initial_agent_steps,
            chunk_agent_steps=config.chunk_updates,
            eval_episodes=evaluation.episodes,
            eval_greedy=evaluation.greedy,
        ),
        lambda lanes: host.make(_host_task(config), config.dmc, lanes, report),
        seeds=seed_numbers(config),
        devices=devices_for(config.seeds),
    )


def device_program(config: RunConfig, env: DeviceEnv) -> Program:
    """The compiled program of a task that lives on the device; `chunk_updates` must be set.

    Raises:
      UsageError: a part refuses the configuration or the task.
    """
    try:
        return _device_program(config, env)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _device_program(config: RunConfig, env: DeviceEnv) -> Program:
    evaluation = config.evaluation
    assert config.chunk_updates is not None
    if config.agent in OFF_POLICY:
        return make_off_policy_program(
            env,
            make_sac(config.sac, env.spec),
            make_bonus(config),
            num_envs=config.sac.num_envs,
            batch_size=config.sac.batch_size,
            replay_capacity=config.sac.replay_capacity,
            initial_agent_steps=config.sac.initial_agent_steps,
            updates_per_step=config.sac.updates_per_step,
            chunk_steps=config.chunk_updates,
            eval_episodes=evaluation.episodes,
            eval_greedy=evaluation.greedy,
            devices=devices_for(config.seeds),
        )
    return make_program(
        env,
        make_a2c(config.a2c, env.spec),
        make_bonus(config),
        num_envs=config.a2c.num_envs,
        rollout_length=config.a2c.rollout_length,
        chunk_updates=config.chunk_updates,
        eval_episodes=evaluation.episodes,
        eval_greedy=evaluation.greedy,
        devices=devices_for(config.seeds),
    )


def cpu_devices(config: RunConfig) -> int:
    """Into how many devices to divide a CPU that does all the work.

    Small operations do not fill several cores, so seeds of one program lie side by side on the
    cores. Learning from pixels fills them; there each seed has a device so that none of its
    convolutions is batched with another seed's.
    """
    return config.seeds if _is_host(config) else machine.usable_cores()


def devices_for(seeds: int) -> list[jax.Device]:
    """The largest number of devices among which the seeds can be divided evenly."""
    devices = jax.devices()
    count = max(n for n in range(1, len(devices) + 1) if seeds % n == 0)
    return devices[:count]


def seed_numbers(config: RunConfig) -> list[int]:
    """The seeds of a run, in the order of the program's leading axis."""
    return [config.seed + i for i in range(config.seeds)]


def _is_host(config: RunConfig) -> bool:
    try:
        return registry.is_host(config.env)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _host_task(config: RunConfig) -> str:
    return registry.canonical(config.env).partition(":")[2]
