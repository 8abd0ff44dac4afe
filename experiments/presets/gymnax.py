"""gymnax tasks: not in the paper; its nearest released hyperparameters where they make sense.

A2C for discrete actions as on MiniGrid, soft actor-critic for continuous ones as on Brax. A
time limit is bootstrapped, because it cuts off rewards that an episode would still have
brought in tasks such as CartPole, which pays every step, though not in all of gymnax.
"""

from experiments.agents import AGENTS
from experiments.config import AgentName, PresetName, RunConfig
from experiments.presets import brax, minigrid, rainbow, tables
from experiments.presets.tables import Values
from re3_jax.envs.base import Box

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
    """Configuration of any gymnax task; the numbers depend on the agent alone."""
    if agent == "rainbow":
        return rainbow.preset(task_id, name)
    if AGENTS[agent].actions is Box:
        return brax.preset(task_id, name, agent)
    return tables.run(*minigrid.of_a2c(name, ROW))
