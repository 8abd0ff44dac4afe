"""The agents: one entry each; beside it only presets and fields of `RunConfig` name it.

Command line, help, validation, building and fine-tuning are read off these entries. Another agent
is another `Agent(...)` in `AGENTS`, or `register(Agent(...))` in a file that `--plugin` names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Any

import numpy as np

from re3_jax.agents.a2c import learner as a2c
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.base import Learner, OnPolicyLearner
from re3_jax.agents.dreamer import learner as dreamer
from re3_jax.agents.dreamer import prediction
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.networks import IMAGE_SIZE
from re3_jax.agents.dreamer.re3 import sequence_re3
from re3_jax.agents.ppo import learner as ppo
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.sac import learner as sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.networks import conv_stack
from re3_jax.random_encoder import is_minigrid_view
from re3_jax.runs.bonuses import Bonus
from re3_jax.runs.errors import UsageError
from re3_jax.runs.registry import Registry, Values


@dataclass(frozen=True)
class OwnBonus:
    """An agent's own form of a bonus.

    Attributes:
      make: (run's options, options of RE3) -> bonus.
      options: of the agent's group that have an effect with this bonus only.
      networks: those options that its parameters depend on.
      neighbours: the option that says where neighbours are searched: in the ring or the batch.
      unused: options of the bonus, dotted, that have no effect with this agent.
      because: why they have none.
    """

    make: Callable[[Any, RE3Config], IntrinsicReward]
    options: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    neighbours: str | None = None
    unused: tuple[str, ...] = ()
    because: str = ""


@dataclass(frozen=True)
class Agent:
    """What `re3_jax.runs` knows of an agent.

    Its config has the fields that `sizes` names.

    Attributes:
      name: on the command line.
      label: in legends; by default its name in capitals.
      group: name of its group of options; agents may share one.
      config: dataclass of these options.
      make: (its options, task, bonus) -> learner.
      actions: the kind of actions it chooses; `Box | Discrete` for both.
      networks: options of the group that decide what its parameters mean; a run that
        fine-tunes must have the same values.
      on_policy: whether it learns from rollouts instead of a replay.
      needs_images: what it does with images, if it learns from nothing else.
      sees: option of a suite that renders -> the only value with which it can learn, and why.
      sequence: option of the group: states in each sequence of a batch.
      first_update: option of the group: steps or frames before the first update; None for an
        agent without that choice, such as one that learns with each whole rollout.
      in_bursts: whether it learns in bursts between whole episodes instead of between steps.
      span: option of the group: agent steps before a transition is whole, if not one.
      chunk_steps: steps of all lanes in one chunk on the device.
      bonuses: its own forms of bonuses, by their names.
      check_task: (values, task) -> None; raises UsageError for what it cannot learn.
      with_other: option of the group -> another one of it and the only value of that one with
        which it has an effect.
      of_images: options of the group that have an effect on images only.
      of_bonuses: options of the group that have an effect with a bonus only.
      gives_value: whether it tells bonuses its values of observations.
      foresees: (run, state) -> frames of a video of its predictions.
    """

    name: str
    group: str
    config: type
    make: Callable[[Any, EnvSpec, IntrinsicReward], Learner | OnPolicyLearner]
    actions: type[Box] | type[Discrete] | UnionType
    networks: tuple[str, ...] = ()
    on_policy: bool = False
    needs_images: str | None = None
    sees: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    sequence: str | None = None
    first_update: str | None = None
    in_bursts: bool = False
    span: str | None = None
    chunk_steps: int = 250
    bonuses: Mapping[str, OwnBonus] = field(default_factory=dict)
    check_task: Callable[[Values, EnvSpec], None] = lambda values, spec: None
    with_other: Mapping[str, tuple[str, str | bool]] = field(default_factory=dict)
    of_images: tuple[str, ...] = ()
    of_bonuses: tuple[str, ...] = ()
    gives_value: bool = False
    foresees: Callable[[Any, Any], list[np.ndarray]] | None = None
    label: str = ""

    def form_of(self, bonus: Bonus) -> "OwnBonus | Bonus":
        """The agent's own form of a bonus, or the bonus itself."""
        return self.bonuses.get(bonus.name, bonus)

    @property
    def ring(self) -> str:
        """The option, dotted, of how many latents a bonus keeps: off-policy as many as the replay.

        A transition's number finds its latent, so both keep the same transitions.
        """
        return "re3.ring_size" if self.on_policy else f"{self.group}.replay_capacity"

    @property
    def sizes(self) -> tuple[str, ...]:
        """Options that the group of every such agent has: whole numbers of at least 1."""
        if self.on_policy:
            return "num_envs", "rollout_length"
        return "num_envs", "batch_size", "replay_capacity"

    @property
    def batch(self) -> tuple[str, ...]:
        """Options of the group whose product is the number of states in a batch."""
        if self.on_policy:
            return self.sizes
        return ("batch_size", self.sequence) if self.sequence else ("batch_size",)


def _check_images(values: Values, spec: EnvSpec) -> None:
    """RAD and DrQ: images must be large enough for the convolutions."""
    convs = conv_stack.colour(values["sac.torso"], values["sac.num_filters"])
    smallest = conv_stack.smallest_side(convs)
    crops = values["sac.augmentation"] == "crop"
    option = "--sac.crop-size" if crops else "--dmc.image-size"
    size = values["sac.crop_size"] if crops else spec.observation_shape[0]
    if spec.is_image and size < smallest:
        raise UsageError(
            f"{option} {size} leaves nothing after the convolutions of --sac.torso "
            f"{values['sac.torso']} ({len(convs)}): give at least {smallest}"
        )


RAD = Agent(
    name="rad",
    group="sac",
    config=SACConfig,
    make=sac.make_learner,
    actions=Box,
    networks=(
        *("augmentation", "crop_size", "torso", "num_filters", "frame_differences"),
        *("latent_dim", "hidden_dim", "log_std_min", "log_std_max"),
    ),
    first_update="initial_agent_steps",
    check_task=_check_images,
    with_other={
        "crop_size": ("augmentation", "crop"),
        "shift_pad": ("augmentation", "shift"),
    },
    of_images=(
        *("augmentation", "num_augmentations", "crop_size", "shift_pad", "torso", "num_filters"),
        *("frame_differences", "latent_dim", "encoder_tau"),
    ),
    gives_value=True,
)


def _check_not_images(values: Values, spec: EnvSpec) -> None:
    """A2C: it has no convolutions for images."""
    if spec.is_image and not is_minigrid_view(spec):
        height, width, _ = spec.observation_shape
        raise UsageError(
            f"--agent a2c has no convolutions for the images of {height}x{width} pixels that "
            f"{values['env']} shows: use --agent ppo"
        )


def _check_annealing(values: Values, spec: EnvSpec) -> None:
    """PPO: the learning rate must not reach 0 before the run ends."""
    over, agent_steps = values["ppo.anneal_agent_steps"], values["steps"] // spec.action_repeat
    if over is not None and over < agent_steps:
        raise UsageError(
            f"--ppo.anneal-agent-steps {over} brings the learning rate to 0 before the run of "
            f"{agent_steps} agent steps ends: give a new run at least {agent_steps}, or None to "
            "keep it; a run that has begun cannot become longer"
        )


AGENTS = Registry(
    "an agent",
    Agent,
    Agent(
        name="a2c",
        group="a2c",
        config=A2CConfig,
        make=a2c.make_learner,
        actions=Discrete,
        networks=("hidden_dim",),
        on_policy=True,
        check_task=_check_not_images,
        of_bonuses=("bonus_target",),
        gives_value=True,
    ),
    RAD,
    replace(RAD, name="drq", label="DrQ", needs_images="shifts images"),
    Agent(
        name="rainbow",
        label="Rainbow",
        group="rainbow",
        config=RainbowConfig,
        make=rainbow.make_learner,
        actions=Discrete,
        networks=(
            *("dueling", "noisy", "distributional", "torso", "hidden_dim"),
            *("num_atoms", "v_min", "v_max"),
        ),
        first_update="initial_agent_steps",
        span="n_steps",
        # Its updates are smaller and rarer.
        chunk_steps=1_000,
        with_other={
            "epsilon": ("noisy", False),
            "noise": ("noisy", True),
            **dict.fromkeys(("num_atoms", "v_min", "v_max"), ("distributional", True)),
            **dict.fromkeys(
                ("priority_exponent", "priority_weight", "anneal_agent_steps"),
                ("prioritized", True),
            ),
        },
        gives_value=True,
    ),
    Agent(
        name="dreamer",
        label="Dreamer",
        group="dreamer",
        config=DreamerConfig,
        make=dreamer.make_learner,
        actions=Box,
        networks=("deter", "stoch", "hidden", "conv_depth", "head_units", "predict_discount"),
        needs_images="learns from images",
        sees={
            "image_size": (IMAGE_SIZE, f"sees images of {IMAGE_SIZE}x{IMAGE_SIZE} pixels"),
            "frame_stack": (1, "remembers what it saw and is shown one frame at a time"),
        },
        sequence="sequence_length",
        first_update="prefill_env_frames",
        in_bursts=True,
        bonuses={
            "re3": OwnBonus(
                make=lambda run, entropy: sequence_re3(
                    entropy, run.dreamer.head_order, run.dreamer.conv_depth, run.dreamer.neighbours
                ),
                options=("neighbours", "head_order"),
                networks=("head_order",),
                neighbours="neighbours",
                unused=("re3.image_input", "re3.image_crop", "re3.torso", "re3.num_filters"),
                because="whose RE3 has an encoder of the world model's shape",
            )
        },
        with_other={"discount_scale": ("predict_discount", True)},
        foresees=lambda run, state: prediction.of_first_seed(
            run.dreamer, state.replay, state.agent.model, state.evaluation_key
        ),
    ),
    Agent(
        name="ppo",
        group="ppo",
        config=PPOConfig,
        make=ppo.make_learner,
        actions=Box | Discrete,
        networks=(
            *("hidden_dim", "recurrent", "intrinsic_value_head"),
            *("normalize_observations", "scaled_rewards"),
        ),
        on_policy=True,
        check_task=_check_annealing,
        with_other=dict.fromkeys(
            ("intrinsic_discount", "intrinsic_coef", "extrinsic_coef"),
            ("intrinsic_value_head", True),
        ),
        gives_value=True,
    ),
)
register = AGENTS.register
