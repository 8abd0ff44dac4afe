"""Brax tasks on states: not in the paper; soft actor-critic on vectors, on the device.

Networks and learning rates are those of the original soft actor-critic on states (Haarnoja et
al., 2018); the rest, the bonus included, is what the paper has for pixels.
"""

from dataclasses import replace

from experiments.config import (
    AgentName,
    BonusName,
    EvaluationConfig,
    PresetName,
    RunConfig,
)
from experiments.presets import dmc
from re3_jax.intrinsic.icm import ICMConfig
from re3_jax.intrinsic.rnd import RNDConfig

DEFAULT_BONUS: BonusName = "re3"

SAC = replace(
    dmc.TABLE_SAC,
    augmentation="none",
    hidden_dim=256,
    batch_size=256,
    actor_learning_rate=3e-4,
    critic_learning_rate=3e-4,
    temperature_learning_rate=3e-4,
    encoder_tau=0.01,
    updates_per_step=4,
    num_envs=8,
)


def default_agent(task_id: str) -> AgentName:
    """Soft actor-critic, which is what RAD is without images."""
    del task_id
    return "rad"


def preset(task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of any task on states with continuous actions."""
    del task_id, agent
    row = dmc.Task()
    config = RunConfig(
        seeds=3,
        steps=500_000,
        sac=SAC,
        re3=replace(
            dmc.PAPER_RE3 if name == "paper" else dmc.RELEASED_RE3,
            beta=row.beta,
            rho=row.rho,
        ),
        rnd=RNDConfig(beta=row.rnd_beta),
        icm=ICMConfig(beta=row.icm_beta),
        evaluation=EvaluationConfig(every_env_frames=10_000, episodes=10, greedy=True),
    )
    return shrink(config) if name == "debug" else config


def shrink(config: RunConfig) -> RunConfig:
    """The same program with small numbers; most of its minute is brax's compilation."""
    return replace(
        config,
        seeds=2,
        steps=1_000,
        tensorboard=False,
        sac=replace(
            config.sac,
            hidden_dim=32,
            batch_size=32,
            replay_capacity=1_000,
            initial_agent_steps=20,
            updates_per_step=1,
        ),
        re3=replace(config.re3, ring_size=1_000),
        rnd=replace(config.rnd, hidden_dim=32),
        icm=replace(config.icm, hidden_dim=32),
        learned=replace(config.learned, hidden_dim=32),
        evaluation=replace(config.evaluation, every_env_frames=1_000, episodes=1),
    )
