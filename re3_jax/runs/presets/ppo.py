"""PPO on every suite of the device: not in the paper.

Batch sizes, learning rates and losses are CleanRL's: `ppo.py` for vectors,
`ppo_continuous_action.py` for continuous actions. MiniGrid's are those of rl-starter-files, from
which the paper's A2C comes, and MinAtar's are chosen here. None is tuned. All have 16 lanes. The
bonus has the numbers of the suite's other agents: the paper's for A2C and for pixels.
"""

from re3_jax.runs.config import PresetName
from re3_jax.runs.presets import tables
from re3_jax.runs.presets.tables import Values, options

ROLLOUT: Values = {
    **options("ppo", num_envs=16, rollout_length=128),
    "evaluation.every_env_frames": 20_480,
}

MINIGRID: Values = ROLLOUT | options("ppo", num_minibatches=8, learning_rate=1e-3)

VECTORS: Values = ROLLOUT | {
    "steps": 500_000,
    **options("ppo", num_minibatches=16, bootstrap_truncation=True, anneal_agent_steps=500_000),
}

MINATAR: Values = VECTORS | {
    "steps": 1_000_000,
    **options("ppo", num_minibatches=8, hidden_dim=128, learning_rate=1e-3),
    "ppo.anneal_agent_steps": 1_000_000,
}

CONTINUOUS: Values = ROLLOUT | {
    "steps": 1_000_000,
    **options("ppo", num_epochs=10, num_minibatches=32, learning_rate=3e-4, entropy_coef=0.0),
    **options("ppo", normalize_observations=True, scaled_rewards="all"),
    **options("ppo", bootstrap_truncation=True, anneal_agent_steps=1_000_000),
}

DEBUG: Values = tables.TINY | {
    **options("ppo", num_envs=4, rollout_length=32, num_epochs=2, num_minibatches=2),
    **options("ppo", hidden_dim=16, anneal_agent_steps=None),
    **options("evaluation", every_env_frames=1_024, episodes=2),
}


def of(table: Values, name: PresetName) -> Values:
    """One of the tables above, at the size of the preset."""
    return table | (DEBUG if name == "debug" else {})
