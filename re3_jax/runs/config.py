"""RunConfig: everything that decides what a run computes, as nested dataclasses.

The command line is this dataclass (`re3_jax.runs.options`), the presets fill it
(`re3_jax.runs.presets`), `config.json` holds it, and resuming compares it.
"""

import dataclasses
import functools
import math
import typing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

import tyro
from flax.traverse_util import flatten_dict, unflatten_dict

from re3_jax import checks
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs import registry
from re3_jax.envs.host.config import AtariConfig, DMCConfig
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.pretrained import PretrainedConfig
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.plural import number_of
from re3_jax.runs import bonuses, option_types
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.option_names import with_options

AgentName = str
"""One of `agents.AGENTS`."""

BonusName = str
"""One of `bonuses.BONUSES`, or several with a + between them."""

PresetName = Literal["recommended", "paper", "released", "small", "data_efficient", "debug"]

NOT_COMPARED_ON_RESUME = "out", "resume", "steps", "checkpoint_seconds", "loggers", "video"
"""Options that do not change what is computed; `steps` may grow (see `run_folder`)."""

DIVISIONS = "ring_shards", "batch_shards"
"""Options of a group, an agent's of a plugin too, that divide a seed's work among devices."""


def is_compared(option: str) -> bool:
    """Whether two runs with other values of an option, dotted, are other runs."""
    group, _, name = option.rpartition(".")
    return name not in (DIVISIONS if group else NOT_COMPARED_ON_RESUME)


TARGET_CHUNK_FRAMES = 32_000
"""Env frames of on-policy agents over all seeds in one chunk: about a second on two CPU cores."""

TARGET_CHUNK_HOST_STEPS = 250
"""Agent steps of a lane in one chunk on the host."""


MOST_EPISODES = 1_000_000
"""Most episodes of an evaluation per seed: more than anyone waits for, and counted in int32."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Periodic evaluation, always at frame 0 and at the end.

    Attributes:
      every_env_frames: env frames of training between evaluations, per seed.
      episodes: episodes per evaluation and seed.
      greedy: take the most probable action instead of sampling.
    """

    every_env_frames: int = 12_800
    episodes: int = 100
    greedy: bool = False


@dataclass(frozen=True)
class RunConfig:
    """One run: a task, an agent, a bonus, and several independent seeds in one program.

    Attributes:
      env: task: one of the paper's by its bare name (doorkey_6x6), any other as suite:id; a suite
        alone (brax:) lists its tasks.
      agent: a2c or rainbow for discrete actions; rad or drq (soft actor-critic) or dreamer for
        continuous ones; ppo for both.
      bonus: the intrinsic reward, or a sum of several, such as re3+rnd.
      plugin: Python file that registers an agent, a bonus or a suite (see docs/extending.md).
      preset: recommended (what works best here), paper (the paper's text), released (the
        authors' code), small (pixels without a GPU; only tasks of DeepMind Control), data_efficient
        (100,000 agent steps; only Atari) or debug (seconds).
      seeds: number of independent seeds trained at once.
      seed: the first seed; the others follow it.
      deterministic: on a GPU, give the same numbers each time: without sums of floats whose order
        is open (see docs/resume.md).
      pretrain: train for this many env frames on the bonus alone, instead of `steps`; the task's
        reward is withheld from the agent, but recorded.
      pretrain_reward: the bonus meanwhile: weighted by beta_t, or bare, r_int itself (Equation 3).
      init: run folder to start from: networks, the bonus's encoder and running statistics are
        taken over, seed by seed (see `re3_jax.training.transfer`).
      steps: env frames to train, per seed; rounded up to whole chunks.
      out: run folder; by default runs/TASK-AGENT-BONUS-TIME.
      resume: continue from the last checkpoint in the run folder.
      chunk_updates: agent updates (off-policy: steps of all lanes) in one chunk, after which the
        host reports, evaluates, and stops if asked to; by default chosen so that the
        evaluation interval is a whole number of chunks, if it is one of updates.
      checkpoint_seconds: wall seconds between two checkpoints.
      loggers: where numbers go beside the CSV files: tensorboard, wandb and mlflow, several with
        commas between them, or none (see `re3_jax.runs.loggers`).
      video: write an MP4 of an evaluation episode at the end (DeepMind Control and Atari), and one
        of the predictions of Dreamer's world model.
      a2c: options of the A2C agent.
      ppo: options of the PPO agent.
      sac: options of soft actor-critic (rad, drq).
      rainbow: options of the Rainbow agent.
      dreamer: options of the Dreamer agent.
      dmc: options of the tasks of DeepMind Control.
      atari: options of Atari games.
      re3: options of the RE3 bonus and of every other that measures distances in latents.
      learned: options of encoders that are trained for state entropy.
      pretrained: options of encoders loaded from a file, spelled `--bonus.weights PATH`.
      evaluation: options of the periodic evaluation.
    """

    env: str = "doorkey_6x6"
    agent: AgentName = "a2c"
    bonus: BonusName = "re3"
    plugin: str | None = None
    preset: PresetName = "recommended"
    seeds: int = 5
    seed: int = 1
    deterministic: bool = False
    pretrain: int | None = None
    pretrain_reward: Literal["weighted", "bare"] = "weighted"
    init: str | None = None
    steps: int = 400_000
    out: str | None = None
    resume: bool = False
    chunk_updates: int | None = None
    checkpoint_seconds: float = 60.0
    loggers: str = "tensorboard"
    video: bool = False
    a2c: A2CConfig = A2CConfig()
    ppo: PPOConfig = PPOConfig()
    sac: SACConfig = SACConfig()
    rainbow: RainbowConfig = RainbowConfig()
    dreamer: DreamerConfig = DreamerConfig()
    dmc: DMCConfig = DMCConfig()
    atari: AtariConfig = AtariConfig()
    re3: RE3Config = RE3Config()
    learned: LearnedEncoderConfig = LearnedEncoderConfig()
    pretrained: Annotated[PretrainedConfig, tyro.conf.arg(name="bonus")] = PretrainedConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @property
    def length(self) -> str:
        """The field that says how long the run is."""
        return "steps" if self.pretrain is None else "pretrain"

    def title(self) -> str:
        """Task, agent, bonus, preset and number of seeds, without the length."""
        what = f"{self.env}: {self.agent} + {self.bonus}"
        return f"{what}, preset {self.preset}, {number_of(self.seeds, 'seed')}"

    @property
    def of_agent(self) -> Any:
        """The options of the run's agent."""
        return getattr(self, AGENTS[self.agent].group)

    @property
    def devices_per_seed(self) -> int:
        """Devices that hold the same seed and divide its work."""
        return math.prod(self.shards.values())

    @property
    def shards(self) -> dict[str, int]:
        """Option, dotted -> number of devices among which it divides the work of a seed."""
        of_batch = f"{AGENTS[self.agent].group}.batch_shards"
        return {"re3.ring_shards": self.re3.ring_shards, of_batch: self.batch_shards}

    @property
    def batch_shards(self) -> int:
        """Devices among which each batch is divided; 1 for agents that do not divide theirs."""
        return int(getattr(self.of_agent, "batch_shards", 1))

    @property
    def seed_numbers(self) -> list[int]:
        """The seeds, in the order of the program's leading axis."""
        return [self.seed + i for i in range(self.seeds)]

    @property
    def stored_steps(self) -> int:
        """Agent steps that an update can learn from: those of a rollout, or those of a replay."""
        options = self.of_agent
        if AGENTS[self.agent].on_policy:
            return int(options.num_envs * options.rollout_length)
        return int(options.replay_capacity)

    @property
    def steps_per_update(self) -> int:
        """Agent steps of a lane in one agent update (off-policy: 1)."""
        return int(self.of_agent.rollout_length) if AGENTS[self.agent].on_policy else 1

    def frames_per_update(self, action_repeat: int) -> int:
        """Env frames of one seed in one agent update (off-policy: in one step of its lanes)."""
        return self.of_agent.num_envs * self.steps_per_update * action_repeat

    def choose_chunk_updates(self, action_repeat: int) -> int:
        """`chunk_updates`, or the largest divisor of the evaluation interval within the target.

        It does not depend on `steps`, so a finished run can be resumed with more steps.
        """
        if self.chunk_updates is not None:
            return self.chunk_updates
        per_update, agent = self.frames_per_update(action_repeat), AGENTS[self.agent]
        if registry.is_host(self.env):
            limit = max(1, TARGET_CHUNK_HOST_STEPS // self.steps_per_update)
        elif agent.on_policy:
            limit = max(1, TARGET_CHUNK_FRAMES // (per_update * self.seeds))
        else:
            limit = agent.chunk_steps
        interval, rest = divmod(self.evaluation.every_env_frames, per_update)
        if rest or interval == 0:
            return max(1, min(limit, interval))
        return checks.largest_divisor(interval, most=limit)


OF_SUITES: dict[str, type] = {}
"""Group -> dataclass of the options of suites on the host that plugins register."""


class Entry(Protocol):
    """An agent, a bonus or a suite that may have a group of options of its own."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def group(self) -> str | None:
        """The group, a field of `RunConfig`."""

    @property
    def config(self) -> type | None:
        """Its dataclass; of a bonus None if another entry or `RunConfig` has the group."""


def config_class() -> type[RunConfig]:
    """`RunConfig` with the names of all agents and bonuses, and with plugins' groups of options.

    A plugin's group of options is a field; its agents and bonuses are values of their fields.
    """
    entries: list[Entry] = [*AGENTS.values(), *BONUSES.values()]
    # Classes and not their names alone: a plugin that failed may come again with others.
    groups = tuple((str(one.group), one.config) for one in entries if one.config is not None)
    return _class_of(tuple(AGENTS), tuple(BONUSES), (*groups, *OF_SUITES.items()))


@functools.cache
def _class_of(
    agents: tuple[str, ...], names: tuple[str, ...], groups: tuple[tuple[str, type], ...]
) -> type[RunConfig]:
    own = {item.name for item in dataclasses.fields(RunConfig)}
    literal = typing.cast(Any, Literal)
    fields: list[Any] = [
        ("agent", literal[agents], RunConfig.agent),
        ("bonus", literal[names] | str, RunConfig.bonus),
        *((n, cls, field(default_factory=cls)) for n, cls in dict(groups).items() if n not in own),
    ]
    made = dataclasses.make_dataclass("RunConfig", fields, bases=(RunConfig,), frozen=True)
    made.__doc__ = RunConfig.__doc__
    return made


_hints = functools.cache(typing.get_type_hints)
"""Field names to annotations; each call of the original evaluates all of them again."""


def flatten(config: RunConfig) -> dict[str, Any]:
    """Dotted field names to values, `{"env": ..., "a2c.num_envs": ...}`."""
    return flatten_dict(dataclasses.asdict(config), sep=".")


def field_types(cls: type, prefix: str = "") -> dict[str, Any]:
    """Dotted field names to their annotations."""
    annotations: dict[str, Any] = {}
    for name, annotation in _hints(cls).items():
        if dataclasses.is_dataclass(annotation):
            annotations |= field_types(typing.cast(type, annotation), f"{prefix}{name}.")
        else:
            annotations[prefix + name] = annotation
    return annotations


def from_dict(values: dict[str, Any], cls: Any = None, prefix: str = "") -> Any:
    """Inverse of `dataclasses.asdict`.

    Args:
      values: by field names, groups of options as a dict each.
      cls: the dataclass, by default `config_class()`.
      prefix: put before the field names of a group of options: `a2c.`.

    Raises:
      TypeError or KeyError: a field is not known or its value is not of its type.
      ValueError: a value is out of range; the sentence names options.
    """
    if not isinstance(values, dict):
        raise TypeError(f"{values!r} is not a group of options")
    cls = cls or config_class()
    hints = _hints(cls)
    made = {}
    for name, value in values.items():
        if dataclasses.is_dataclass(hints[name]):
            made[name] = from_dict(value, hints[name], f"{prefix}{name}.")
        elif name == "bonus" and isinstance(value, str):
            bonuses.parts(value)
            made[name] = value
        elif option_types.fits(value, hints[name]):
            made[name] = value
        else:
            raise TypeError(f"{prefix}{name} cannot be {value!r}")
    try:
        return cls(**made)
    except ValueError as error:
        names = [f"{prefix}{item.name}" for item in dataclasses.fields(cls)]
        raise ValueError(with_options(str(error), names)) from None


def unflatten(flat: dict[str, Any]) -> RunConfig:
    """Inverse of `flatten`."""
    return from_dict(unflatten_dict(flat, sep="."))
