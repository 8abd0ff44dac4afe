"""PPO on every suite: not in the paper.

Batch sizes, learning rates and losses are CleanRL's: `ppo.py` for vectors, `ppo_atari.py` for
Atari, `ppo_continuous_action.py` for continuous actions, DeepMind Control from pixels included, of
which CleanRL has none. MiniGrid's rollout, batch and learning rate are those of rl-starter-files,
from which the paper's A2C comes, with CleanRL's losses; MinAtar's are those of PureJaxRL's
`brax_minatar.ipynb`. Of all these only the weights of bonuses on DoorKey-8x8 are searched: rollouts
of 64 and an entropy weight of 0.001 showed no gain in tries there with RE3 (3 seeds, 153,600
frames), eight epochs perhaps one (`results/ppo/doorkey_8x8_settings.csv`). Atari has CleanRL's 8
lanes, MinAtar 64 and the others 16. Elsewhere the bonus has the numbers of the suite's other
agents: the paper's for A2C and for pixels.
"""

from re3_jax.envs.host import atari
from re3_jax.runs.config import PresetName
from re3_jax.runs.presets import tables
from re3_jax.runs.presets.tables import Values, options

ROLLOUT: Values = {
    **options("ppo", num_envs=16, rollout_length=128),
    "evaluation.every_env_frames": 20_480,
}

MINIGRID: Values = ROLLOUT | options("ppo", num_minibatches=8, learning_rate=1e-3)

SEARCHED: dict[str, Values] = {
    "DoorKey-8x8": {
        **options("rnd", "ngu", beta=1e-4),
        **options("re3", "noveld", "counts", beta=0.01),
        **{"vcse.beta": 0.005, "icm.beta": 5e-5, "e3b.beta": 5e-4, "rise.beta": 0.1},
    },
}
"""`recommended`'s weights on MiniGrid: the best of `results/minigrid_hard_betas`, RISE's of
`results/minigrid_hard_more`."""

VECTORS: Values = ROLLOUT | {
    "steps": 500_000,
    **options("ppo", num_minibatches=16, bootstrap_truncation=True, anneal_agent_steps=500_000),
}

MINATAR: Values = VECTORS | {
    "steps": 10_000_000,
    **options("ppo", num_envs=64, num_minibatches=8, hidden_dim=128),
    # At 0.001 three of four seeds of Breakout stay at 7 (`results/ppo`, `ppo_known_returns`).
    **options("ppo", learning_rate=5e-3, anneal_agent_steps=10_000_000),
    "evaluation.every_env_frames": 204_800,
}

PIXELS: Values = VECTORS | {
    "steps": 102_400,
    **options("ppo", num_minibatches=8, hidden_dim=128, learning_rate=1e-3),
    "ppo.anneal_agent_steps": 102_400,
}
"""Options for the small pixel tasks on the device."""

CONTINUOUS: Values = ROLLOUT | {
    "steps": 1_000_000,
    **options("ppo", num_epochs=10, num_minibatches=32, learning_rate=3e-4, entropy_coef=0.0),
    **options("ppo", normalize_observations=True, scaled_rewards="all"),
    **options("ppo", bootstrap_truncation=True, anneal_agent_steps=1_000_000),
}

ATARI_AGENT_STEPS = 10_000_000

ATARI: Values = {
    "steps": ATARI_AGENT_STEPS * atari.FRAME_SKIP,
    **options("ppo", num_envs=8, hidden_dim=512, clip_epsilon=0.1, reward_clip=1.0),
    "ppo.anneal_agent_steps": ATARI_AGENT_STEPS,
    "evaluation.every_env_frames": 102_400 * atari.FRAME_SKIP,
}
"""Options for Atari games: the number of steps is CleanRL's, too; all others are the defaults."""

ATARI_DATA_EFFICIENT: Values = {
    "steps": 100_000 * atari.FRAME_SKIP,
    "ppo.anneal_agent_steps": 100_000,
    "evaluation.every_env_frames": 10_240 * atari.FRAME_SKIP,
}

ATARI_DEBUG: Values = {
    **options("ppo", num_envs=2, rollout_length=25, num_epochs=2, num_minibatches=2),
    **options("ppo", hidden_dim=16, anneal_agent_steps=None),
    **options("evaluation", every_env_frames=1_000, episodes=1),
    "steps": 2_000,
}

DMC_STEPS = 500_000

DMC: Values = CONTINUOUS | {
    "steps": DMC_STEPS,
    **options("ppo", hidden_dim=512, normalize_observations=False),
    "dmc.image_size": 84,
}

DMC_SMALL: Values = {"ppo.hidden_dim": 256, "dmc.image_size": 48}

DMC_DEBUG: Values = tables.TINY | {
    **options("ppo", num_envs=2, rollout_length=10, num_epochs=2, num_minibatches=2),
    **options("ppo", hidden_dim=16, anneal_agent_steps=None),
    **options("evaluation", every_env_frames=800, episodes=2),
    "dmc.image_size": 36,
}

DEBUG: Values = tables.TINY | {
    **options("ppo", num_envs=4, rollout_length=32, num_epochs=2, num_minibatches=2),
    **options("ppo", hidden_dim=16, anneal_agent_steps=None),
    **options("evaluation", every_env_frames=1_024, episodes=2),
}


def on_atari(name: PresetName) -> Values:
    """Options on a game that override Rainbow's."""
    own = {"data_efficient": ATARI_DATA_EFFICIENT, "debug": ATARI_DEBUG}.get(name, {})
    return ATARI | own


def on_dmc(name: PresetName, action_repeat: int) -> Values:
    """Options on a task of DeepMind Control that override RAD's."""
    whole: Values = {
        "ppo.anneal_agent_steps": DMC_STEPS // action_repeat,
        # Three updates, near RAD's 5,000 agent steps.
        "evaluation.every_env_frames": 6_144 * action_repeat,
    }
    return DMC | whole | {"small": DMC_SMALL, "debug": DMC_DEBUG}.get(name, {})


def of(table: Values, name: PresetName) -> Values:
    """One of the tables above, at the size of the preset."""
    return table | (DEBUG if name == "debug" else {})
