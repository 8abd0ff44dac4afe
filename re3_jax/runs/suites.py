"""The suites of tasks: one entry each, with the presets of its tasks.

Another suite is another `Suite(...)` in `SUITES`, or `register(Suite(...))` in a file that
`--plugin` names; its tasks are registered with `re3_jax.envs.registry.register`, those on the host
with `register_host`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from re3_jax.envs import host, registry
from re3_jax.envs.base import EnvSpec
from re3_jax.envs.host import atari, atari_games, dmc, tasks
from re3_jax.envs.host.base import HostEnv
from re3_jax.envs.host.config import AtariConfig, DMCConfig
from re3_jax.envs.host.foreign import ForeignLanes, check_lanes_spec
from re3_jax.runs import machine
from re3_jax.runs.config import OF_SUITES, AgentName, PresetName, RunConfig
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.installing import ensure_envpool
from re3_jax.runs.presets import atari as atari_presets
from re3_jax.runs.presets import brax, gymnax, minigrid, pixels
from re3_jax.runs.presets import dmc as dmc_presets
from re3_jax.runs.registry import Registry

Report = Callable[[str], None]


@dataclass(frozen=True)
class HostSuite:
    """Additional attributes of a suite whose lanes are on the host.

    Attributes:
      group: its group of options, a field of `RunConfig`.
      example: one of its tasks.
      config: dataclass of these options.
      spec: (task id, options of the group) -> what the task looks like to an agent; raises
        ValueError or ImportError.
      make: (task id, options of the group, number of lanes, report) -> lanes; `report` takes a
        sentence on what happens to one. Raises ValueError or ImportError.
      is_drawn: whether `host.drawn_by` says what renders frames, with the options `renderer` and
        `image_size`.
      fixed_filters: whether random encoders have filters of their own.
      no_effect: (option of the group, task id, all options) -> why it has no effect, and the
        remedy; None if it has one.
    """

    group: str
    example: str
    config: type
    spec: Callable[[str, Any], EnvSpec]
    make: Callable[[str, Any, int, Report], HostEnv]
    is_drawn: bool = False
    fixed_filters: bool = False
    no_effect: Callable[[str, str, Mapping[str, Any]], str | None] = lambda *_: None


@dataclass(frozen=True)
class Suite:
    """What `re3_jax.runs` knows of a suite.

    Attributes:
      name: the part of a task before the colon.
      tasks: what its tasks are called in a sentence.
      agent: the default agent; on a suite of the paper the one it combines RE3 with.
      preset: (task id, preset, agent) -> a complete configuration.
      other_agents: task id -> default agent, for tasks with another default.
      own_presets: those of `PresetName` that only it and others that name them have.
      without_accelerator: the default preset on a machine with neither GPU nor TPU, if it is not
        `recommended`.
      in_pixels: whether observations are pixels.
      host: None for a suite on the device.
      summary: (task id, final return) -> additional values of summary.json.
      fine_tuned: (task id, run) -> the run, if it starts from a pre-trained one.
      with_learned_encoder: (task id, run) -> the run with settings for a learned encoder.
    """

    name: str
    tasks: str
    agent: AgentName
    preset: Callable[[str, PresetName, AgentName], RunConfig]
    other_agents: Mapping[str, AgentName] = field(default_factory=dict)
    own_presets: tuple[PresetName, ...] = ()
    without_accelerator: PresetName | None = None
    in_pixels: bool = False
    host: HostSuite | None = None
    summary: Callable[[str, float], dict[str, float]] = lambda task_id, final_return: {}
    fine_tuned: Callable[[str, RunConfig], RunConfig] = lambda task_id, config: config
    with_learned_encoder: Callable[[str, RunConfig], RunConfig] = lambda task_id, config: config

    @property
    def group(self) -> str | None:
        """Its group of options."""
        return self.host.group if self.host else None

    @property
    def config(self) -> type | None:
        """Dataclass of the group."""
        return self.host.config if self.host else None


def _dmc_spec(task_id: str, options: DMCConfig) -> EnvSpec:
    if options.engine == "envpool":
        ensure_envpool()
    return dmc.spec(task_id, options)


def _no_effect_on_dmc(option: str, task_id: str, values: Mapping[str, Any]) -> str | None:
    if option == "sparse_threshold" and not tasks.find(task_id).sparse:
        return f"on {values['env']}, whose reward is not cut: leave it out"
    if option == "step_timeout_seconds" and values["dmc.engine"] == "envpool":
        return "with --dmc.engine envpool: leave it out or use --dmc.engine dm_control"
    return None


def _atari_spec(task_id: str, options: AtariConfig) -> EnvSpec:
    ensure_envpool()
    return atari.spec(task_id, options)


SUITES = Registry(
    "a suite",
    Suite,
    Suite("minigrid", "MiniGrid tasks", "a2c", minigrid.preset, fine_tuned=minigrid.fine_tuned),
    Suite(
        "dmc",
        "tasks of DeepMind Control",
        "rad",
        dmc_presets.preset,
        own_presets=("small",),
        without_accelerator="small",
        in_pixels=True,
        fine_tuned=dmc_presets.fine_tuned,
        host=HostSuite(
            *("dmc", "cheetah_run_sparse", DMCConfig, _dmc_spec, host.make),
            is_drawn=True,
            no_effect=_no_effect_on_dmc,
        ),
    ),
    Suite("brax", "brax tasks", "rad", brax.preset, fine_tuned=dmc_presets.fine_tuned),
    Suite("gymnax", "gymnax tasks", "a2c", gymnax.preset, dict.fromkeys(gymnax.CONTINUOUS, "rad")),
    Suite("pixels", "small tasks in pixels", "dreamer", pixels.preset, in_pixels=True),
    Suite(
        "atari",
        "Atari games",
        "rainbow",
        atari_presets.preset,
        own_presets=("data_efficient",),
        in_pixels=True,
        summary=lambda game, final_return: {
            "human_normalised_return": atari_games.human_normalised(game, final_return)
        },
        with_learned_encoder=atari_presets.with_learned_encoder,
        host=HostSuite(
            *("atari", "montezuma_revenge", AtariConfig, _atari_spec, host.make), fixed_filters=True
        ),
    ),
)


def register(suite: Suite) -> None:
    """Adds a suite; what the lanes of one on the host return is checked in every step.

    Raises:
      ValueError: its name is taken, or `entries.check` refuses it; one sentence.
    """
    SUITES.register(suite)
    if suite.host is not None:
        checked = replace(suite.host, make=partial(_foreign, suite.host))
        SUITES[suite.name] = replace(suite, host=checked)
    if suite.group is not None and suite.config is not None:
        OF_SUITES[suite.group] = suite.config


def _foreign(
    on_host: HostSuite, task_id: str, options: Any, num_lanes: int, report: Report
) -> HostEnv:
    spec = on_host.spec(task_id, options)
    check_lanes_spec(spec, UsageError)
    lanes = on_host.make(task_id, options, num_lanes, report)
    return ForeignLanes(lanes, spec, num_lanes, UsageError)


def find(task: str) -> tuple[Suite, str]:
    """The suite of a task and the task's name in it; an unknown one is a UsageError."""
    with refusing(ValueError):
        name, _, task_id = registry.canonical(task).partition(":")
    if name not in SUITES:
        raise UsageError(f"the suite {name} has no presets: register it in re3_jax.runs.suites")
    return SUITES[name], task_id


def default_agent(task: str) -> AgentName:
    """The agent of a task, if none is given."""
    suite, task_id = find(task)
    return suite.other_agents.get(task_id, suite.agent)


def default_preset(task: str) -> PresetName:
    """The preset of a task on this machine, if none is given."""
    smaller = find(task)[0].without_accelerator
    return smaller if smaller and not machine.has_accelerator() else RunConfig.preset


def host_of(task: str) -> HostSuite | None:
    """The suite of a task on the host; None for one on the device."""
    return find(task)[0].host


def shows_frames(task: str) -> bool:
    """Whether an episode of the task can be filmed: its lanes on the host show pixels."""
    suite = find(task)[0]
    return suite.host is not None and suite.in_pixels


def drawn_by(config: RunConfig) -> str | None:
    """The renderer of a run; None where nothing is rendered."""
    on_host = host_of(config.env)
    return getattr(config, on_host.group).renderer if on_host and on_host.is_drawn else None
