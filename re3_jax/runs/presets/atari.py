"""Atari: Kaixhin/Rainbow's defaults, its data-efficient variant, the paper's bonuses; PPO.

Weights of the bonuses are those of the paper's Appendix "Details on Atari experiments", which has
none for RND and ICM. `docs/deviations.md` lists what its text leaves open.
"""

from dataclasses import replace

from re3_jax.envs.host import atari
from re3_jax.runs.config import AgentName, PresetName, RunConfig
from re3_jax.runs.presets import ppo, rainbow, tables
from re3_jax.runs.presets.tables import Values, options

BETA = {"asterix": 0.01, "beam_rider": 0.01, "seaquest": 0.001}
"""RE3's beta by game; 0.0001 on every other game."""

CONTRASTIVE_BETA = {"seaquest": 0.001}
"""Beta of state entropy over a contrastive encoder by game; 0.0001 on every other game."""

OTHER_BETA = 0.0001

LATENT_DIM = {"montezuma_revenge": 150}
"""Length of a latent by game; 50 on every other game."""

COMMON: Values = {
    "seeds": 3,
    "steps": 200_000_000,
    "checkpoint_seconds": 600.0,
    "video": True,
    **rainbow.RE3,
    "re3.ring_size": 1_000_000,
    # Fewer than are kept: the time of a search grows with them.
    **options("re3", "vcse", search_size=100_000),
    "re3.image_crop": atari.SIZE,
    **options("learned", augmentation="shift", shift_pad=4),
    **options("evaluation", episodes=10, greedy=True),
    "evaluation.every_env_frames": 100_000 * atari.FRAME_SKIP,
}

DATA_EFFICIENT: Values = {
    "steps": 100_000 * atari.FRAME_SKIP,
    **options("rainbow", torso="data_efficient", hidden_dim=256, n_steps=20, learning_rate=1e-4),
    **options("rainbow", target_every=2_000, replay_capacity=100_000, initial_agent_steps=1_600),
    **options("rainbow", agent_steps_per_update=1, anneal_agent_steps=100_000),
    **options("re3", "vcse", search_size=None),
    "re3.ring_size": 100_000,
    "evaluation.every_env_frames": 10_000 * atari.FRAME_SKIP,
}
"""Data-efficient Rainbow (Van Hasselt et al., 2019), with the numbers of Kaixhin's README."""

DEBUG = rainbow.DEBUG | {
    "atari.max_agent_steps": 250,
    **options("rainbow", torso="data_efficient", num_envs=1, replay_capacity=400),
    **options("rainbow", initial_agent_steps=100, agent_steps_per_update=10),
    **options("re3", "vcse", search_size=200),
    "re3.ring_size": 400,
    "evaluation.episodes": 1,
}


def preset(task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of a game, such as `montezuma_revenge`."""
    beta, latent_dim = BETA.get(task_id, OTHER_BETA), LATENT_DIM.get(task_id, 50)
    of_game = options("re3", beta=beta, latent_dim=latent_dim)
    smaller = {"data_efficient": DATA_EFFICIENT, "debug": DEBUG}.get(name, {})
    of_ppo = ppo.on_atari(name) if agent == "ppo" else {}
    return tables.run(COMMON, of_game, smaller, of_ppo)


def with_learned_encoder(task_id: str, config: RunConfig) -> RunConfig:
    """`config` for state entropy over a learned encoder."""
    beta = CONTRASTIVE_BETA.get(task_id, OTHER_BETA)
    return replace(config, re3=replace(config.re3, beta=beta))
