"""Small pixel tasks on the device: not in the paper; sized so that a run takes minutes."""

from re3_jax.runs.agents import AGENTS
from re3_jax.runs.config import AgentName, PresetName, RunConfig
from re3_jax.runs.presets import dmc, dreamer, ppo, tables
from re3_jax.runs.presets.tables import Values, options

COMMON: Values = {
    "steps": 2_400,
    **options("dreamer", deter=32, stoch=8, hidden=32, conv_depth=4, head_units=32),
    **options("dreamer", batch_size=8, sequence_length=8, horizon=6, mode_samples=20),
    **options("dreamer", discount=0.9, free_nats=0.5, model_learning_rate=2e-3),
    **options("dreamer", actor_learning_rate=4e-4, value_learning_rate=1e-3),
    **options("dreamer", prefill_env_frames=480, env_frames_per_burst=24, updates_per_burst=6),
    **options("dreamer", replay_capacity=4_000, num_envs=2),
    **dreamer.OF_FRAMES,
    # More neighbours than one sequence has frames, as with the paper's 53.
    **options("re3", first_neighbour=11, last_neighbour=11, latent_dim=10),
    **options("evaluation", every_env_frames=240, episodes=20, greedy=True),
}

DEBUG = dreamer.DEBUG | {
    "steps": 800,
    **options("dreamer", prefill_env_frames=200, num_envs=2),
    "evaluation.every_env_frames": 400,
}
"""The numbers of DeepMind Control's `debug`."""


def preset(_task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of any task of this suite."""
    re3 = dmc.PAPER_RE3 if name == "paper" else dmc.RELEASED_RE3
    of_agent = ppo.of(ppo.PIXELS, name) if agent == "ppo" else {}
    # Here a video has only what an agent predicts.
    film: Values = {"video": AGENTS[agent].foresees is not None}
    return tables.run(re3, COMMON, film, DEBUG if name == "debug" else {}, of_agent)
