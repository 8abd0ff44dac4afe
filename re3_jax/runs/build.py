"""RunConfig -> what trains it."""

import contextlib
import dataclasses
import math
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax

from re3_jax import checks
from re3_jax.agents.base import Learner, OnPolicyLearner
from re3_jax.agents.checking import validated as validated_agent
from re3_jax.agents.reward_free import reward_free
from re3_jax.envs import host, registry
from re3_jax.envs.base import DeviceEnv, EnvSpec
from re3_jax.envs.checking import validated as validated_env
from re3_jax.envs.host.base import HostEnv
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.checking import validated
from re3_jax.intrinsic.sums import sum_of
from re3_jax.plural import number_of
from re3_jax.runs import bonuses, machine, suites
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.option_names import option_name, with_options, with_ring_of
from re3_jax.runs.validate import validate_for_task
from re3_jax.schedules import unweighted
from re3_jax.training.device_program import DeviceProgram
from re3_jax.training.distributed import Processes
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.off_policy import make_off_policy_program
from re3_jax.training.on_policy import make_on_policy_program

Runner = DeviceProgram | HostProgram
"""What drives a run, whichever side the environments live on; the two are used alike."""


def planned(config: RunConfig) -> tuple[RunConfig, EnvSpec]:
    """The configuration with its chunk size, and its task; no renderer is looked for.

    Raises:
      UsageError: the agent does not fit the task, or the task or its suite is not installed.
    """
    spec = task_spec(config)
    validate_for_task(config, spec)
    chunk = config.choose_chunk_updates(spec.action_repeat)
    return dataclasses.replace(config, chunk_updates=chunk), spec


def prepared(config: RunConfig) -> tuple[RunConfig, EnvSpec]:
    """The same where the run can be built here: `auto` is the renderer for this machine.

    Raises:
      UsageError: as `planned`, or this machine lacks what draws the task.
    """
    (config, spec), on_host = planned(config), suites.host_of(config.env)
    if on_host is not None and on_host.is_drawn:
        with refusing(ValueError, ImportError):
            options = getattr(config, on_host.group)
            drawn_by = host.drawn_by(suites.find(config.env)[1], options)
        options = dataclasses.replace(options, renderer=drawn_by)
        config = dataclasses.replace(config, **{on_host.group: options})
    return config, spec


def part_of(config: RunConfig, processes: Processes) -> RunConfig:
    """The configuration of the seeds that this process trains; a UsageError if they do not fit."""
    with refusing(ValueError):
        seeds = processes.share(config.seeds)
    return dataclasses.replace(config, seeds=seeds, seed=config.seed + processes.index * seeds)


def task_spec(config: RunConfig) -> EnvSpec:
    """The task's specification; a UsageError if the task or its suite is not installed."""
    suite, task_id = suites.find(config.env)
    if suite.host is None:
        return make_environment(config.env).spec
    with refusing(ValueError, ImportError):
        return suite.host.spec(task_id, getattr(config, suite.host.group))


def make_environment(task: str) -> DeviceEnv:
    """A task on the device; a UsageError if the task or its suite is not installed."""
    with refusing(ValueError, ImportError):
        return validated_env(registry.make(task))


def make_bonus(config: RunConfig) -> IntrinsicReward:
    """The intrinsic reward or a sum of several; off-policy, a ring has one latent per transition.

    Raises:
      ValueError: its options contradict each other, or a file of weights cannot be used.
    """
    agent, parts = AGENTS[config.agent], bonuses.parts(config.bonus)
    if config.pretrain is not None and config.pretrain_reward == "bare":
        groups = {name for part in parts for name in part.groups}
        bare = {name: unweighted(getattr(config, name)) for name in groups}
        config = dataclasses.replace(config, **bare)
    entropy = config.re3
    if not agent.on_policy:
        entropy = dataclasses.replace(entropy, ring_size=config.of_agent.replay_capacity)
    made = {part.name: agent.form_of(part).make(config, entropy) for part in parts}
    with refusing(TypeError):
        return validated(sum_of(made) if len(made) > 1 else made[config.bonus])


def make_learner(config: RunConfig, spec: EnvSpec) -> Learner | OnPolicyLearner:
    """The agent's learner; during pre-training it sees no task reward.

    Raises:
      ValueError: it cannot act in the task, or its options contradict each other.
    """
    agent = AGENTS[config.agent]
    made = validated_agent(agent.make(config.of_agent, spec, make_bonus(config)))
    kind = OnPolicyLearner if agent.on_policy else Learner
    if not isinstance(made, kind):
        raise ValueError(
            f"make of --agent {agent.name} returns a {type(made).__name__}, but its entry says "
            f"on_policy={agent.on_policy}: return a {kind.__name__}, or change the entry"
        )
    if made.num_lanes != config.of_agent.num_envs:
        raise ValueError(
            f"the learner of --agent {agent.name} has {made.num_lanes} lanes, but its num_envs is "
            f"{config.of_agent.num_envs}: make one from the other"
        )
    return made if config.pretrain is None else reward_free(made)


def build(
    config: RunConfig,
    spec: EnvSpec,
    report: Callable[[str], None],
    devices: Sequence[jax.Device] | None = None,
) -> Runner:
    """The training program of all seeds, spread over as many devices as divide them evenly.

    Args:
      config: `chunk_updates` must be set.
      spec: its task.
      report: receives one sentence per event in the host's lanes.
      devices: that it may use; by default all of JAX's.

    Raises:
      UsageError: an agent, bonus or task refuses the configuration.
    """
    on_host = suites.host_of(config.env)
    if on_host is None:
        return device_program(config, make_environment(config.env), devices)
    assert config.chunk_updates is not None
    task_id, options = suites.find(config.env)[1], getattr(config, on_host.group)

    def make_env(num_lanes: int) -> HostEnv:
        with refusing(ValueError, ImportError):
            return on_host.make(task_id, options, num_lanes, report)

    with refused_by_parts(config):
        return HostProgram(
            make_learner(config, spec),
            make_env,
            seeds=config.seed_numbers,
            chunk_agent_steps=config.chunk_updates * config.steps_per_update,
            **_options(config, devices),
        )


@contextlib.contextmanager
def refused_by_parts(config: RunConfig) -> Iterator[None]:
    """Turns a ValueError of the library into a `UsageError` that names options, not fields.

    One that an installed package raised is a fault of a program, whose traceback tells where. For
    one that a user's own file raised, the sentence tells where.
    """
    try:
        yield
    except ValueError as error:
        raised = traceback.extract_tb(error.__traceback__)[-1]
        file = Path(raised.filename)
        if not _is_ours(file):
            raise
        where = "" if _is_of_package(file) else f" ({file.name}, line {raised.lineno})"
        groups = [AGENTS[config.agent].group]
        groups += [group for part in bonuses.parts(config.bonus) for group in part.groups]
        if (on_host := suites.host_of(config.env)) is not None:
            groups.append(on_host.group)
        names = [f"{group}.{name}" for group in groups for name in vars(getattr(config, group))]
        # Other fields have names that are ordinary words.
        fields = [name for name in names if "_" in name.rpartition(".")[2]]
        sentence = with_ring_of(AGENTS[config.agent], with_options(str(error), fields))
        raise UsageError(sentence + where) from None


def _is_of_package(file: Path) -> bool:
    return file.is_relative_to(Path(__file__).parents[1])


def _is_ours(file: Path) -> bool:
    """Whether a file is this package's or a user's own, and no installed package's."""
    if _is_of_package(file):
        return True
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return not installed and not file.is_relative_to(sysconfig.get_path("stdlib"))


def device_program(
    config: RunConfig, env: DeviceEnv, devices: Sequence[jax.Device] | None = None
) -> DeviceProgram:
    """Like `build`, for a task on the device: its compiled program."""
    chunk, options = config.chunk_updates, _options(config, devices)
    assert chunk is not None
    with refused_by_parts(config):
        learner = make_learner(config, env.spec)
        if isinstance(learner, OnPolicyLearner):
            return make_on_policy_program(env, learner, chunk_updates=chunk, **options)
        return make_off_policy_program(env, learner, chunk_steps=chunk, **options)


def _options(config: RunConfig, devices: Sequence[jax.Device] | None) -> dict[str, Any]:
    asked = config.evaluation
    return {
        "eval_episodes": asked.episodes,
        "eval_greedy": asked.greedy,
        "devices": devices_of(config, devices),
        "deterministic": config.deterministic,
        "ring_shards": config.re3.ring_shards,
        "batch_shards": config.batch_shards,
    }


def cpu_devices(config: RunConfig) -> int:
    """How many devices to divide the CPU into when it does all the work.

    Learning from pixels fills the cores; there each seed has its own device, so that its
    convolutions are not batched with another seed's. Where a seed's work is divided each of these
    devices becomes several.
    """
    on_device = suites.host_of(config.env) is None
    return config.devices_per_seed * (side_by_side(config.seeds) if on_device else config.seeds)


def side_by_side(seeds: int) -> int:
    """Among how many devices of the CPU so many seeds of a program of small operations are divided.

    Such operations do not fill several cores. If the number of cores does not divide that of the
    seeds, there are more devices than cores, which share them: five for five seeds on two cores
    (`benchmarks/results/five_seeds_pairs.json`). Where these would be too many, as for a large
    prime, there are fewer than cores.
    """
    cores = min(machine.usable_cores(), seeds)
    small = [n for n in range(1, math.isqrt(seeds) + 1) if seeds % n == 0]
    fit = [n for n in small + [seeds // n for n in small] if cores <= n <= machine.MOST_CPU_DEVICES]
    return min(fit, default=checks.largest_divisor(seeds, most=cores))


def devices_for(
    seeds: int,
    devices: Sequence[jax.Device] | None = None,
    shards: Mapping[str, int] = MappingProxyType({}),
) -> list[jax.Device]:
    """The most of `devices` that the seeds, each on its own few, can be divided among evenly.

    By default of this process's. A seed is on as many as `RunConfig.shards` multiply to.

    Raises:
      UsageError: these do not divide their number.
    """
    devices, per_seed = devices or machine.devices(), math.prod(shards.values())
    if len(devices) % per_seed:
        options = [f"{option_name(one)} {number}" for one, number in shards.items() if number > 1]
        fits = checks.largest_divisor(len(devices), most=per_seed)
        product = "numbers whose product is " * (len(options) > 1)
        raise UsageError(
            f"{' and '.join(options)} cannot divide the "
            f"{number_of(len(devices), 'device')} of this process: give {product}{fits}"
        )
    shares = len(devices) // per_seed
    count = checks.largest_divisor(seeds, most=shares)
    return list(devices[: count * per_seed])


def devices_of(config: RunConfig, devices: Sequence[jax.Device] | None = None) -> list[jax.Device]:
    """`devices_for` a run."""
    return devices_for(config.seeds, devices, config.shards)


def fitted(config: RunConfig) -> RunConfig:
    """A run that is only read, its ring divided among as many devices as this process has.

    Numbers do not depend on that. No batch is divided.
    """
    if config.batch_shards > 1:
        undivided = dataclasses.replace(config.of_agent, batch_shards=1)
        config = dataclasses.replace(config, **{AGENTS[config.agent].group: undivided})
    machine.use_cpu_devices(min(cpu_devices(config), machine.MOST_CPU_DEVICES))
    shards = math.gcd(config.re3.ring_shards, len(machine.devices()))
    re3 = dataclasses.replace(config.re3, ring_shards=shards)
    return dataclasses.replace(config, re3=re3)
