"""The agents: one entry each, the one place of `experiments` that names it.

Command line, help, validation, building and fine-tuning are read off these entries. Another agent
is `register(Agent(...))`, here or in a file that `--plugin` names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments import predictions
from experiments.errors import UsageError
from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.base import Learner, OnPolicyLearner
from re3_jax.agents.dreamer import learner as dreamer
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.networks import IMAGE_SIZE
from re3_jax.agents.dreamer.state_entropy import sequence_re3
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.sac import learner as sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.re3_config import RE3Config

Values = Mapping[str, Any]
"""A RunConfig by dotted field names."""

SMALLEST_IMAGE = 15
"""Pixels of which four 3x3 convolutions, the first with stride 2, leave one."""


def _accept(values: Values, spec: EnvSpec | None = None) -> None:
    """Refuses nothing."""


def _no_effect(name: str, values: Values) -> str | None:
    """Every option has an effect."""
    return None


@dataclass(frozen=True)
class Agent:
    """What `experiments` knows of an agent.

    The config of an on-policy agent has the fields `num_envs` and `rollout_length`, that of any
    other `num_envs`, `batch_size` and `replay_capacity`.

    Attributes:
      name: on the command line.
      group: of its options; agents may share one.
      config: dataclass of these options.
      make: (its options, task, bonus) -> learner.
      actions: kind of actions that it chooses.
      networks: options of the group without which its parameters mean something else; a run
        that fine-tunes must have the same.
      on_policy: whether it learns from rollouts instead of a replay.
      needs_images: what it does with images, if it can see nothing else.
      first_update: option of the group: steps or frames before the first update.
      span: option of the group: environment steps of one transition.
      chunk_steps: steps of all lanes in one chunk on the device.
      bonuses: bonus -> (run's options, options of RE3) -> its own form of that bonus.
      bonus_options: bonus -> options of the group that have an effect with this bonus only.
      networks_with: bonus -> options of the group that its parameters depend on.
      no_effect: (option, values) -> why the option has no effect and what to do, or None.
      check_values: (values) -> None; raises UsageError for options that do not go together.
      check_task: (values, task) -> None; raises UsageError for what it cannot learn.
      foresees: (run, state) -> frames of a video of its predictions.
    """

    name: str
    group: str
    config: type
    make: Callable[[Any, EnvSpec, IntrinsicReward], Learner | OnPolicyLearner]
    actions: type[Box] | type[Discrete]
    networks: tuple[str, ...] = ()
    on_policy: bool = False
    needs_images: str | None = None
    first_update: str = "initial_agent_steps"
    span: str | None = None
    chunk_steps: int = 250
    bonuses: Mapping[str, Callable[[Any, RE3Config], IntrinsicReward]] = field(default_factory=dict)
    bonus_options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    networks_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    no_effect: Callable[[str, Values], str | None] = _no_effect
    check_values: Callable[[Values], None] = _accept
    check_task: Callable[[Values, EnvSpec], None] = _accept
    foresees: Callable[[Any, Any], list[np.ndarray]] | None = None


AGENTS: dict[str, Agent] = {}
"""Name -> entry, in the order in which help lists them."""


def register(agent: Agent) -> None:
    """Adds an agent.

    Raises:
      ValueError: there is one of this name.
    """
    if agent.name in AGENTS:
        raise ValueError(f"there is an agent {agent.name} already: choose another name")
    AGENTS[agent.name] = agent


def of_group(group: str) -> list[str]:
    """Names of the agents that have this group of options."""
    return [agent.name for agent in AGENTS.values() if agent.group == group]


def first(actions: type, off_policy: bool = False) -> str:
    """The first agent for these actions that sees anything; with `off_policy` one with a replay."""
    return next(
        agent.name
        for agent in AGENTS.values()
        if agent.actions is actions
        and not agent.needs_images
        and not (off_policy and agent.on_policy)
    )


def _check_images(values: Values, spec: EnvSpec) -> None:
    """RAD and DrQ: four convolutions must leave something."""
    if len(spec.observation_shape) != 3:
        return
    size, crop = values["dmc.image_size"], values["sac.crop_size"]
    crops = values["sac.augmentation"] == "crop"
    if crops and crop > size:
        raise UsageError(
            f"--sac.crop-size {crop} is more than the {size} pixels of an image: give "
            "at most that, or a larger --dmc.image-size"
        )
    if (crop if crops else size) < SMALLEST_IMAGE:
        option = "--sac.crop-size" if crops else "--dmc.image-size"
        raise UsageError(
            f"{option} {crop if crops else size} leaves nothing after four convolutions: give at "
            f"least {SMALLEST_IMAGE}"
        )


def _check_sight(values: Values, spec: EnvSpec) -> None:
    """Dreamer sees single frames of one size."""
    for name, needed, why in (
        ("image_size", IMAGE_SIZE, f"sees images of {IMAGE_SIZE}x{IMAGE_SIZE} pixels"),
        ("frame_stack", 1, "remembers what it saw and is shown one frame at a time"),
    ):
        value = values[f"dmc.{name}"]
        if spec.task.startswith("dmc:") and value != needed:
            raise UsageError(
                f"--agent dreamer {why}: leave --dmc.{name.replace('_', '-')} at {needed} instead "
                f"of {value}"
            )


def _check_rank(values: Values) -> None:
    """Dreamer seeks neighbours among the frames of a batch."""
    rank = values["re3.last_neighbour"]
    batch = values["dreamer.batch_size"] * values["dreamer.sequence_length"]
    if _in_batch(values) and rank > batch - (0 if values["re3.count_self"] else 1):
        raise UsageError(
            f"a batch of {batch} frames has no neighbour of rank {rank}: lower "
            "--re3.last-neighbour, raise --dreamer.batch-size or use --dreamer.neighbours ring"
        )


def _in_batch(values: Values) -> bool:
    return values["bonus"] == "re3" and values["dreamer.neighbours"] != "ring"


def _no_effect_with_dreamer(name: str, values: Values) -> str | None:
    encoder = ("re3.image_input", "re3.image_crop", "re3.num_filters")
    if values["bonus"] == "re3" and name in encoder:
        return (
            "with --agent dreamer, whose RE3 has an encoder of the world model's shape: leave it "
            "out"
        )
    if name in ("re3.search_size", "re3.merge_copies") and _in_batch(values):
        return (
            "where neighbours are sought among the frames of a batch: leave it out or use "
            "--dreamer.neighbours ring"
        )
    return None


def _re3_of_sequences(config: Any, entropy: RE3Config) -> IntrinsicReward:
    c = config.dreamer
    return sequence_re3(entropy, c.head_order, c.conv_depth, c.neighbours)


register(
    Agent(
        name="a2c",
        group="a2c",
        config=A2CConfig,
        make=a2c.make_learner,
        actions=Discrete,
        networks=("hidden_dim",),
        on_policy=True,
    )
)

RAD = Agent(
    name="rad",
    group="sac",
    config=SACConfig,
    make=sac.make_learner,
    actions=Box,
    networks=(
        "augmentation",
        "crop_size",
        "num_filters",
        "latent_dim",
        "hidden_dim",
        "log_std_min",
        "log_std_max",
    ),
    check_task=_check_images,
)
register(RAD)
register(replace(RAD, name="drq", needs_images="shifts images"))

register(
    Agent(
        name="rainbow",
        group="rainbow",
        config=RainbowConfig,
        make=rainbow.make_learner,
        actions=Discrete,
        networks=(
            "dueling",
            "noisy",
            "distributional",
            "torso",
            "hidden_dim",
            "num_atoms",
            "v_min",
            "v_max",
        ),
        span="n_steps",
        # Its updates are small and rarer.
        chunk_steps=1_000,
    )
)

register(
    Agent(
        name="dreamer",
        group="dreamer",
        config=DreamerConfig,
        make=dreamer.make_learner,
        actions=Box,
        networks=(
            "deter",
            "stoch",
            "hidden",
            "conv_depth",
            "head_units",
            "predict_discount",
        ),
        needs_images="learns from images",
        first_update="prefill_env_frames",
        bonuses={"re3": _re3_of_sequences},
        bonus_options={"re3": ("neighbours", "head_order")},
        networks_with={"re3": ("head_order",)},
        no_effect=_no_effect_with_dreamer,
        check_values=_check_rank,
        check_task=_check_sight,
        foresees=predictions.frames,
    )
)
