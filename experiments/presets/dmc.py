"""The paper's "Hyperparameters of RAD + RE3 used for DeepMind Control Suite experiments".

`paper` is the table and the text of the appendix to the letter; `released` is what the authors'
code runs, and made the published curves. They share every number of the table and differ in
what the random encoder sees, how the bonus is normalised and where a sparse reward begins.
`recommended` is `released` drawn by whatever renderer works here; `small` is the same program
for a machine without a GPU; `debug` takes seconds. What the paper does not state, the released
code does (see `docs/deviations.md`).
"""

from dataclasses import dataclass, replace

from experiments.config import (
    AgentName,
    BonusName,
    EvaluationConfig,
    PresetName,
    RunConfig,
)
from experiments.presets import dreamer
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.host import tasks
from re3_jax.envs.host.config import DMCConfig
from re3_jax.initializers import Scheme
from re3_jax.intrinsic.icm import ICMConfig
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.rnd import RNDConfig

DEFAULT_BONUS: BonusName = "re3"

MAIN_TASKS = (
    "hopper_hop",
    "quadruped_run",
    "cartpole_swingup_sparse",
    "pendulum_swingup",
    "walker_run_sparse",
    "cheetah_run_sparse",
)
"""The tasks of the paper's figures, with five runs each; the authors' data has three of others."""

AGENT_STEPS_BETWEEN_EVALUATIONS = 5_000


@dataclass(frozen=True)
class Task:
    """The rows of the table that differ between tasks, but for the action repeat.

    Attributes:
      beta: initial intrinsic reward scale beta_0.
      rho: intrinsic reward decay, per agent step.
      rnd_beta: intrinsic reward scale of RND.
      icm_beta: intrinsic reward scale of ICM.
      initial_agent_steps: steps with random actions.
    """

    beta: float = 0.05
    rho: float = 1e-5
    rnd_beta: float = 0.05
    icm_beta: float = 0.1
    initial_agent_steps: int = 1_000


TASKS = {
    "cartpole_swingup_sparse": Task(rnd_beta=10.0),
    "cheetah_run_sparse": Task(rnd_beta=0.1, icm_beta=1.0),
    "pendulum_swingup": Task(beta=0.25, rnd_beta=0.1),
    "walker_run_sparse": Task(rho=2.5e-5),
    "quadruped_run": Task(initial_agent_steps=10_000),
}
"""Every other task has the values that `Task` begins with."""

SMALL_ACTION_REPEAT = {"cartpole": 8, "finger": 2, "walker": 2}
"""Per domain, 4 otherwise: the table of the RAD paper (Laskin et al., 2020)."""

TABLE_SAC = SACConfig(
    augmentation="crop",
    num_augmentations=1,
    crop_size=84,
    num_filters=32,
    latent_dim=50,
    init_temperature=0.1,
    actor_learning_rate=2e-4,
    critic_learning_rate=2e-4,
    temperature_learning_rate=1e-3,
    target_every=2,
    critic_tau=0.01,
    encoder_tau=0.05,
    batch_size=512,
    replay_capacity=100_000,
    # From here on the table is silent and the values are the released code's.
    hidden_dim=1024,
    log_std_min=-10.0,
    log_std_max=2.0,
    discount=0.99,
    actor_every=2,
    updates_per_step=1,
)

DRQ_SAC = replace(
    TABLE_SAC,
    augmentation="shift",
    shift_pad=4,
    num_augmentations=2,
    actor_learning_rate=1e-3,
    critic_learning_rate=1e-3,
    temperature_learning_rate=1e-3,
    critic_tau=0.01,
    encoder_tau=0.01,
)
"""DrQ of its own authors (github.com/denisyarats/drq), which draws 84x84 frames."""

RELEASED_DRQ_SAC = replace(TABLE_SAC, num_augmentations=2)
"""The switch in the released code: RAD's crop, twice; used for none of the published curves."""

PAPER_RE3 = RE3Config(
    first_neighbour=3,
    last_neighbour=3,
    count_self=False,
    ring_size=100_000,
    normalize="running_std",
    log1p=False,
    encoder_init="torch",
    latent_dim=50,
    image_input="stacked_crop",
    image_crop=84,
    num_filters=32,
)
"""k = 3; "the same encoder architecture" as the agent's is taken to mean its input as well."""

RELEASED_RE3 = replace(
    PAPER_RE3,
    first_neighbour=4,
    last_neighbour=4,
    count_self=True,
    normalize="released_running_std",
    image_input="newest_frame",
)

ICM_INIT: Scheme = "orthogonal"
"""As RND's authors, and as Yarats et al. (2019), whose encoder the paper takes for ICM, draw linear
layers. Drawn as PyTorch does, the inverse model does not begin to learn within 1,000 updates."""

FINE_TUNING_TEMPERATURE = 0.01
"""Initial temperature of RAD + RE3 + PT."""

TABLE_DMC = DMCConfig(image_size=100, frame_stack=3, engine="dm_control", renderer="gl")


def default_agent(task_id: str) -> AgentName:
    """RAD, with which the paper combines RE3."""
    del task_id
    return "rad"


def preset(task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of a task of DeepMind Control, such as `cheetah_run_sparse`.

    Raises:
      ValueError: there is no such task.
    """
    repeat = tasks.find(task_id).action_repeat
    row, paper = TASKS.get(task_id, Task()), name == "paper"
    sac, image_size = TABLE_SAC, TABLE_DMC.image_size
    if agent == "drq":
        # The released switch is not DrQ: only the preset that promises that code takes it.
        sac = RELEASED_DRQ_SAC if name == "released" else DRQ_SAC
        image_size = TABLE_DMC.image_size if name == "released" else 84
    config = RunConfig(
        seeds=5 if paper or task_id in MAIN_TASKS else 3,
        steps=500_000,
        checkpoint_seconds=600.0,
        video=True,
        sac=replace(sac, initial_agent_steps=row.initial_agent_steps),
        dmc=replace(
            TABLE_DMC,
            image_size=image_size,
            action_repeat=repeat,
            sparse_threshold="exclusive" if paper else "inclusive",
            renderer="gl" if name in ("paper", "released") else "auto",
        ),
        re3=replace(PAPER_RE3 if paper else RELEASED_RE3, beta=row.beta, rho=row.rho),
        rnd=RNDConfig(beta=row.rnd_beta),
        icm=ICMConfig(beta=row.icm_beta, encoder_init=ICM_INIT),
        learned=LearnedEncoderConfig(
            augmentation="crop" if sac.augmentation == "crop" else "shift",
            shift_pad=sac.shift_pad,
        ),
        evaluation=EvaluationConfig(
            every_env_frames=AGENT_STEPS_BETWEEN_EVALUATIONS * repeat, episodes=10, greedy=True
        ),
    )
    if agent == "dreamer":
        return dreamer.on_dmc(config, name)
    if name == "small":
        return shrink(config, tasks.find(task_id).domain)
    return shrink_to_seconds(config) if name == "debug" else config


def fine_tuned(task_id: str, config: RunConfig) -> RunConfig:
    """`config` for a run that starts from a pre-trained one."""
    del task_id
    return replace(config, sac=replace(config.sac, init_temperature=FINE_TUNING_TEMPERATURE))


def shrink(config: RunConfig, domain: str) -> RunConfig:
    """The same program at a size that two CPU cores can train.

    Learning rate and action repeat are those of the RAD paper, which trains for as few frames.
    """
    return replace(
        config,
        seeds=3,
        steps=80_000,
        sac=replace(
            config.sac,
            crop_size=56,
            num_filters=8,
            hidden_dim=256,
            batch_size=64,
            actor_learning_rate=1e-3,
            critic_learning_rate=1e-3,
            replay_capacity=20_000,
            initial_agent_steps=500,
        ),
        dmc=replace(
            config.dmc,
            image_size=64,
            action_repeat=SMALL_ACTION_REPEAT.get(domain, 4),
            renderer="warp",
        ),
        re3=replace(config.re3, ring_size=20_000, num_filters=16, image_crop=56),
        rnd=replace(config.rnd, hidden_dim=256, num_filters=16, image_crop=56),
        icm=replace(config.icm, hidden_dim=256, num_filters=16, image_crop=56),
        learned=replace(config.learned, hidden_dim=256),
        evaluation=replace(config.evaluation, every_env_frames=4_000, episodes=5),
    )


def shrink_to_seconds(config: RunConfig) -> RunConfig:
    """The same program with tiny numbers, for tests and first tries."""
    return replace(
        config,
        seeds=2,
        steps=2_000,
        checkpoint_seconds=60.0,
        tensorboard=False,
        video=False,
        sac=replace(
            config.sac,
            crop_size=32,
            num_filters=4,
            hidden_dim=32,
            batch_size=16,
            replay_capacity=200,
            initial_agent_steps=30,
        ),
        dmc=replace(config.dmc, image_size=36, action_repeat=20),
        re3=replace(config.re3, ring_size=200, num_filters=4, image_crop=32),
        rnd=replace(config.rnd, hidden_dim=32, num_filters=4, image_crop=32),
        icm=replace(config.icm, hidden_dim=32, num_filters=4, image_crop=32),
        learned=replace(config.learned, hidden_dim=32),
        evaluation=replace(config.evaluation, every_env_frames=1_000, episodes=2),
    )
