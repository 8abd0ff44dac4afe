"""RunConfig -> what trains it."""

import dataclasses
import re
from collections.abc import Callable

import jax

from experiments import machine
from experiments.config import (
    BONUSES_OF,
    GROUP_OF,
    OFF_POLICY,
    RunConfig,
    learner,
    option_name,
)
from experiments.errors import UsageError
from experiments.installing import ensure_envpool
from re3_jax.agents.a2c.agent import make_a2c
from re3_jax.agents.base import Agent
from re3_jax.agents.dreamer.agent import Dreamer
from re3_jax.agents.dreamer.state_entropy import sequence_re3
from re3_jax.agents.rainbow.agent import make_rainbow
from re3_jax.agents.reward_free import reward_free
from re3_jax.agents.sac.agent import make_sac
from re3_jax.envs import host, registry
from re3_jax.envs.base import DeviceEnv, EnvSpec
from re3_jax.envs.host import atari, dmc, renderer
from re3_jax.intrinsic import icm, rnd
from re3_jax.intrinsic.base import IntrinsicReward, none
from re3_jax.intrinsic.contrastive import contrastive
from re3_jax.intrinsic.inverse_dynamics import inverse_dynamics
from re3_jax.intrinsic.pretrained import atc, imagenet, load_atc, load_imagenet
from re3_jax.intrinsic.re3 import re3
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import scaled
from re3_jax.training import dreamer_host_step, prioritized_host_step
from re3_jax.training.dreamer_loop import make_dreamer_program
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.host_step import HostStepConfig, OneSeed, SeedFunctions
from re3_jax.training.off_policy_loop import make_off_policy_program
from re3_jax.training.prioritized_loop import make_prioritized_program
from re3_jax.training.runner import DeviceRunner, Runner
from re3_jax.training.seeds import Program, make_program


def task_spec(config: RunConfig) -> EnvSpec:
    """What the task looks like to an agent.

    Raises:
      UsageError: it is not known, or its suite is not installed.
    """
    if not _is_host(config):
        return make_environment(config.env).spec
    if _is_atari(config) or config.dmc.engine == "envpool":
        ensure_envpool()
    try:
        if _is_atari(config):
            return atari.spec(_host_task(config), config.atari)
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
    if not _is_host(config) or _is_atari(config):
        return config
    try:
        chosen = renderer.choose(config.dmc)
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None
    return dataclasses.replace(config, dmc=dataclasses.replace(config.dmc, renderer=chosen))


def make_bonus(config: RunConfig) -> IntrinsicReward:
    """The intrinsic reward; off-policy state entropy keeps one latent per transition.

    Raises:
      ValueError: its options do not go together, or a file of weights cannot be used.
    """
    match config.bonus:
        case "none":
            return none()
        case "rnd":
            return rnd.from_config(config.rnd)
        case "icm":
            return icm.from_config(config.icm)
    entropy = config.re3
    if config.agent in OFF_POLICY:
        entropy = dataclasses.replace(entropy, ring_size=learner(config).replay_capacity)
    if config.agent == "dreamer":
        dreamer = config.dreamer
        return sequence_re3(entropy, dreamer.head_order, dreamer.conv_depth, dreamer.neighbours)
    return scaled(entropy, _distance(config, entropy))


def _distance(config: RunConfig, entropy: RE3Config) -> IntrinsicReward:
    encoder = config.pretrained
    match config.bonus:
        case "contrastive":
            return contrastive(entropy, config.learned)
        case "inverse_dynamics":
            return inverse_dynamics(entropy, config.learned)
        case "imagenet":
            return imagenet(entropy, load_imagenet(str(encoder.weights)))
        case "atc":
            return atc(entropy, load_atc(str(encoder.weights), encoder.atc_output))
        case _:
            return re3(entropy)


def make_agent(config: RunConfig, spec: EnvSpec) -> Agent:
    """The agent; one that is pre-trained sees no task reward.

    Raises:
      ValueError: it cannot act in the task.
    """
    match config.agent:
        case "a2c":
            agent = make_a2c(config.a2c, spec)
        case "rainbow":
            agent = make_rainbow(config.rainbow, spec)
        case _:
            agent = make_sac(config.sac, spec)
    return agent if config.pretrain is None else reward_free(agent)


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


def refusal(error: ValueError, config: RunConfig) -> UsageError:
    """The sentence of a part of the library, in which fields are called by their options."""
    groups = [GROUP_OF[config.agent]]
    groups += [group for group, bonuses in BONUSES_OF.items() if config.bonus in bonuses]
    options = {
        item.name: option_name(f"{group}.{item.name}")
        for group in reversed(groups)
        for item in dataclasses.fields(getattr(config, group))
        # Other fields are ordinary words.
        if "_" in item.name
    }
    names = "|".join(options)
    return UsageError(re.sub(rf"(?<![\w.-])({names})\b", lambda m: options[m[0]], str(error)))


def host_program(config: RunConfig, spec: EnvSpec, report: Callable[[str], None]) -> HostProgram:
    """As `build`, for a task whose lanes are on the host."""
    try:
        return _host_program(config, spec, report)
    except ValueError as error:
        raise refusal(error, config) from None


def _host_program(config: RunConfig, spec: EnvSpec, report: Callable[[str], None]) -> HostProgram:
    assert config.chunk_updates is not None
    greedy = config.evaluation.greedy
    one: SeedFunctions
    if config.agent == "dreamer":
        one = dreamer_host_step.OneSeed(
            spec,
            Dreamer(config.dreamer, spec),
            make_bonus(config),
            config.dreamer,
            eval_greedy=greedy,
            reward_free=config.pretrain is not None,
        )
    elif config.agent == "rainbow":
        one = prioritized_host_step.OneSeed(
            spec,
            make_agent(config, spec),
            make_bonus(config),
            config.rainbow,
            eval_greedy=greedy,
        )
    else:
        step_config = HostStepConfig(
            frame_stack=config.dmc.frame_stack,
            batch_size=config.sac.batch_size,
            replay_capacity=config.sac.replay_capacity,
            initial_agent_steps=config.sac.initial_agent_steps,
            eval_greedy=greedy,
        )
        one = OneSeed(spec, make_agent(config, spec), make_bonus(config), step_config)
    engine = config.atari if _is_atari(config) else config.dmc
    return HostProgram(
        one,
        lambda lanes: host.make(_host_task(config), engine, lanes, report),
        seeds=seed_numbers(config),
        chunk_agent_steps=config.chunk_updates,
        eval_episodes=config.evaluation.episodes,
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
        raise refusal(error, config) from None


def _device_program(config: RunConfig, env: DeviceEnv) -> Program:
    evaluation = config.evaluation
    assert config.chunk_updates is not None
    if config.agent == "dreamer":
        return make_dreamer_program(
            env,
            Dreamer(config.dreamer, env.spec),
            make_bonus(config),
            config.dreamer,
            chunk_steps=config.chunk_updates,
            eval_episodes=evaluation.episodes,
            eval_greedy=evaluation.greedy,
            reward_free=config.pretrain is not None,
            devices=devices_for(config.seeds),
        )
    if config.agent == "rainbow":
        return make_prioritized_program(
            env,
            make_agent(config, env.spec),
            make_bonus(config),
            config.rainbow,
            chunk_steps=config.chunk_updates,
            eval_episodes=evaluation.episodes,
            eval_greedy=evaluation.greedy,
            devices=devices_for(config.seeds),
        )
    if config.agent == "a2c":
        return make_program(
            env,
            make_agent(config, env.spec),
            make_bonus(config),
            num_envs=config.a2c.num_envs,
            rollout_length=config.a2c.rollout_length,
            chunk_updates=config.chunk_updates,
            eval_episodes=evaluation.episodes,
            eval_greedy=evaluation.greedy,
            devices=devices_for(config.seeds),
        )
    return make_off_policy_program(
        env,
        make_agent(config, env.spec),
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


def _is_atari(config: RunConfig) -> bool:
    return registry.suite(config.env) == "atari"


def _host_task(config: RunConfig) -> str:
    return registry.canonical(config.env).partition(":")[2]
