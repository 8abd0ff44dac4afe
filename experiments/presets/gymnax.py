"""gymnax tasks: not in the paper; MiniGrid's released hyperparameters where they make sense.

A time limit is bootstrapped, because it cuts off rewards that an episode would still have
brought in tasks such as CartPole, which pays every step, though not in all of gymnax.
"""

from dataclasses import replace

from experiments.config import (
    AgentName,
    BonusName,
    EvaluationConfig,
    PresetName,
    RunConfig,
)
from experiments.presets import minigrid

DEFAULT_AGENT: AgentName = "a2c"
DEFAULT_BONUS: BonusName = "re3"


def preset(task_id: str, name: PresetName) -> RunConfig:
    """Configuration of any gymnax task; the numbers do not depend on `task_id`."""
    base = minigrid.preset("DoorKey-6x6", "released" if name == "debug" else name)
    config = replace(
        base,
        steps=500_000,
        a2c=replace(base.a2c, bootstrap_truncation=True),
        evaluation=EvaluationConfig(every_env_frames=25_600, episodes=100),
    )
    return minigrid.shrink(config) if name == "debug" else config
