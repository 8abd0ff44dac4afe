"""Brax tasks on states: not in the paper; soft actor-critic or PPO on vectors, on the device.

The default agent is RAD, which is soft actor-critic on tasks without images. Its networks and
learning rates are those of the original soft actor-critic on states (Haarnoja et al., 2018);
everything else, the bonus included, is the paper's setting for pixels.
"""

from re3_jax.runs.config import AgentName, PresetName, RunConfig
from re3_jax.runs.presets import dmc, ppo, tables
from re3_jax.runs.presets.tables import Values, options

COMMON: Values = {
    "seeds": 3,
    "steps": 500_000,
    **dmc.ANY_TASK,
    **options("sac", augmentation="none", hidden_dim=256, batch_size=256, encoder_tau=0.01),
    **options("sac", actor_learning_rate=3e-4, critic_learning_rate=3e-4),
    **options("sac", temperature_learning_rate=3e-4, updates_per_step=4, num_envs=8),
    **options("evaluation", every_env_frames=10_000, episodes=10, greedy=True),
}

DEBUG = tables.TINY | {
    "steps": 1_000,
    **options("sac", hidden_dim=32, batch_size=32, initial_agent_steps=20, updates_per_step=1),
    "sac.replay_capacity": 1_000,
    "re3.ring_size": 1_000,
    "evaluation.episodes": 1,
}
"""Options of `debug`: a run takes a minute, most of which is brax's compilation."""


def preset(_task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of any task on states with continuous actions."""
    re3 = dmc.PAPER_RE3 if name == "paper" else dmc.RELEASED_RE3
    of_ppo = ppo.of(ppo.CONTINUOUS, name) if agent == "ppo" else {}
    return tables.run(COMMON, re3, DEBUG if name == "debug" else {}, of_ppo)
