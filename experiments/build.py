"""RunConfig -> what trains it."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

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
from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.base import Learner, OnPolicyLearner
from re3_jax.agents.dreamer import learner as dreamer
from re3_jax.agents.dreamer.state_entropy import sequence_re3
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.reward_free import reward_free
from re3_jax.agents.sac import learner as sac
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
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.off_policy import make_off_policy_program
from re3_jax.training.on_policy import make_on_policy_program
from re3_jax.training.runner import DeviceRunner, Runner
from re3_jax.training.seeds import Program


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
    if config.agent == "dreamer" and config.bonus == "re3":
        c = config.dreamer
        return sequence_re3(entropy, c.head_order, c.conv_depth, c.neighbours)
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


def make_learner(config: RunConfig, spec: EnvSpec) -> Learner | OnPolicyLearner:
    """What learns the task; a learner that is pre-trained sees no task reward.

    Raises:
      ValueError: it cannot act in the task, or its options do not go together.
    """
    bonus = make_bonus(config)
    if config.agent == "a2c":
        on_policy = a2c.make_learner(config.a2c, spec, bonus)
        return on_policy if config.pretrain is None else reward_free(on_policy)
    match config.agent:
        case "rainbow":
            learner = rainbow.make_learner(config.rainbow, spec, bonus)
        case "dreamer":
            learner = dreamer.make_learner(config.dreamer, spec, bonus)
        case _:
            learner = sac.make_learner(config.sac, spec, bonus)
    return learner if config.pretrain is None else reward_free(learner)


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
    learner = make_learner(config, spec)
    assert isinstance(learner, Learner)
    engine = config.atari if _is_atari(config) else config.dmc
    return HostProgram(
        learner,
        lambda lanes: host.make(_host_task(config), engine, lanes, report),
        seeds=seed_numbers(config),
        chunk_agent_steps=config.chunk_updates,
        eval_episodes=config.evaluation.episodes,
        eval_greedy=config.evaluation.greedy,
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
    assert config.chunk_updates is not None
    learner = make_learner(config, env.spec)
    evaluation: dict[str, Any] = {
        "eval_episodes": config.evaluation.episodes,
        "eval_greedy": config.evaluation.greedy,
        "devices": devices_for(config.seeds),
    }
    if isinstance(learner, OnPolicyLearner):
        return make_on_policy_program(
            env, learner, chunk_updates=config.chunk_updates, **evaluation
        )
    return make_off_policy_program(env, learner, chunk_steps=config.chunk_updates, **evaluation)


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
