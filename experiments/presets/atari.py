"""Rainbow on Atari: Kaixhin/Rainbow's defaults, its data-efficient variant, the paper's bonuses.

Weights of the bonuses are those of the paper's Appendix "Details on Atari experiments"; it has none
for RND and ICM. What its text leaves open is in `docs/deviations.md`.
"""

from dataclasses import replace

from experiments.config import AgentName, BonusName, EvaluationConfig, PresetName, RunConfig
from experiments.presets import rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.host import atari
from re3_jax.envs.host.config import AtariConfig
from re3_jax.intrinsic.icm import ICMConfig
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.rnd import RNDConfig

DEFAULT_BONUS: BonusName = "re3"

BETA = {"asterix": 0.01, "beam_rider": 0.01, "seaquest": 0.001}
"""Of RE3; 0.0001 on every other game."""

CONTRASTIVE_BETA = {"seaquest": 0.001}
"""Of state entropy over a contrastive encoder; 0.0001 on every other game."""

OTHER_BETA = 0.0001

LATENT_DIM = {"montezuma_revenge": 150}
"""50 on every other game."""

SEARCH_SIZE = 100_000
"""Of the 1,000,000 latents kept: the time of a search grows with them."""

DATA_EFFICIENT = RainbowConfig(
    torso="data_efficient",
    hidden_dim=256,
    n_steps=20,
    learning_rate=1e-4,
    target_every=2_000,
    replay_capacity=100_000,
    initial_agent_steps=1_600,
    agent_steps_per_update=1,
    anneal_agent_steps=100_000,
)
"""Van Hasselt et al. (2019), with the numbers of Kaixhin's README."""


def default_agent(task_id: str) -> AgentName:
    """Rainbow, with which the paper combines RE3 on Atari."""
    del task_id
    return "rainbow"


def preset(task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of a game, such as `montezuma_revenge`."""
    del agent
    config = RunConfig(
        seeds=3,
        steps=200_000_000,
        checkpoint_seconds=600.0,
        video=True,
        rainbow=RainbowConfig(),
        atari=AtariConfig(),
        re3=replace(
            rainbow.RE3,
            beta=BETA.get(task_id, OTHER_BETA),
            latent_dim=LATENT_DIM.get(task_id, 50),
            ring_size=RainbowConfig().replay_capacity,
            search_size=SEARCH_SIZE,
            image_input="stacked_crop",
            image_crop=atari.SIZE,
        ),
        rnd=RNDConfig(beta=OTHER_BETA),
        icm=ICMConfig(beta=OTHER_BETA),
        learned=LearnedEncoderConfig(augmentation="shift", shift_pad=4),
        evaluation=EvaluationConfig(
            every_env_frames=100_000 * atari.FRAME_SKIP, episodes=10, greedy=True
        ),
    )
    if name == "data_efficient":
        config = replace(
            config,
            steps=100_000 * atari.FRAME_SKIP,
            rainbow=DATA_EFFICIENT,
            re3=replace(config.re3, ring_size=DATA_EFFICIENT.replay_capacity, search_size=None),
            evaluation=replace(config.evaluation, every_env_frames=10_000 * atari.FRAME_SKIP),
        )
    return shrink(config) if name == "debug" else config


def with_learned_encoder(task_id: str, config: RunConfig) -> RunConfig:
    """`config` for state entropy over an encoder that is learned."""
    beta = CONTRASTIVE_BETA.get(task_id, OTHER_BETA)
    return replace(config, re3=replace(config.re3, beta=beta))


def shrink(config: RunConfig) -> RunConfig:
    """The same program with small numbers, for tests and first tries."""
    config = rainbow.shrink(config)
    return replace(
        config,
        video=False,
        atari=replace(config.atari, max_agent_steps=250),
        rainbow=replace(
            config.rainbow,
            torso="data_efficient",
            num_envs=1,
            replay_capacity=400,
            initial_agent_steps=100,
            agent_steps_per_update=10,
        ),
        re3=replace(config.re3, ring_size=400, search_size=200),
        evaluation=replace(config.evaluation, episodes=1),
    )
