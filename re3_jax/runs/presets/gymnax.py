"""gymnax tasks: not in the paper; the nearest released hyperparameters where they make sense.

Discrete actions use A2C as on MiniGrid, continuous ones soft actor-critic as on Brax; PPO takes
both. Time limits are bootstrapped, because in tasks such as CartPole, which pays every step, they
cut off rewards that the episode would still have brought; this does not hold for all of gymnax.
"""

from re3_jax.envs.base import Box
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.config import AgentName, PresetName, RunConfig
from re3_jax.runs.presets import brax, minigrid, ppo, rainbow, tables
from re3_jax.runs.presets.tables import Values

CONTINUOUS = (
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "PointRobot-misc",
    "Reacher-misc",
    "Swimmer-misc",
)
"""Tasks whose actions are real numbers; written down because gymnax may not be installed."""

ROW: Values = minigrid.TASKS["DoorKey-6x6"] | {
    "steps": 500_000,
    "a2c.bootstrap_truncation": True,
    # Real-valued observations hardly repeat.
    "re3.merge_copies": False,
    "evaluation.every_env_frames": 25_600,
}


def preset(task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of any gymnax task; the numbers depend on the agent and the kind of task."""
    if agent == "rainbow":
        return rainbow.preset(task_id, name)
    if AGENTS[agent].actions is Box or (agent == "ppo" and task_id in CONTINUOUS):
        return brax.preset(task_id, name, agent)
    of_ppo = ppo.MINATAR if task_id.endswith("-MinAtar") else ppo.VECTORS
    own = ppo.of(of_ppo, name) if agent == "ppo" else {}
    return tables.run(*minigrid.of_a2c(name, ROW), own)
