"""Rainbow on the device: MinAtar, and any other task with discrete actions.

The paper has Rainbow on Atari, with Kaixhin/Rainbow's defaults, which are those of `RainbowConfig`.
Tasks here are smaller than Atari and have smaller numbers, near those of the MinAtar experiments of
Obando-Ceron and Castro (2021, "Revisiting Rainbow"). Only updates differ: a batch of 128 every 16
agent steps instead of 32 every 4 learns from as many transitions in half the time. The bonus is the
paper's, log(1 + distance) with beta 0.0001 (Appendix "Details on Atari experiments");
`docs/deviations.md` says what was chosen where that text is open.
"""

from re3_jax.runs.config import PresetName, RunConfig
from re3_jax.runs.presets import dmc, tables
from re3_jax.runs.presets.tables import Values, options

RE3: Values = {
    **dmc.PAPER_RE3,
    **options("re3", normalize="none", log1p=True),
    **options("re3", "rnd", "icm", "rise", "vcse", beta=1e-4),
}

COMMON: Values = {
    "steps": 1_000_000,
    **RE3,
    **options("rainbow", hidden_dim=128, v_min=0.0, v_max=30.0, learning_rate=5e-4),
    **options("rainbow", target_every=250, batch_size=128, num_envs=16),
    **options("rainbow", initial_agent_steps=5_000, agent_steps_per_update=16),
    **options("rainbow", anneal_agent_steps=1_000_000, replay_capacity=100_000),
    **options("evaluation", every_env_frames=20_000, episodes=20, greedy=True),
}

DEEP_SEA: Values = {
    "steps": 60_000,
    # One step: the bonus is added to the first of n rewards, but would count for all n.
    **options("rainbow", noisy=False, n_steps=1, v_min=-0.5, v_max=2.0, learning_rate=1e-3),
    **options("rainbow", adam_eps=1e-7, target_every=50, batch_size=64, num_envs=8),
    **options("rainbow", initial_agent_steps=500, agent_steps_per_update=4),
    "rainbow.replay_capacity": 60_000,
    # All cells are equally far apart, so only cells seen fewer times than this are rewarded.
    **options("re3", first_neighbour=300, last_neighbour=300),
    **options("re3", ring_size=60_000, merge_copies=True, beta=0.5),
    **options("evaluation", every_env_frames=4_000, episodes=2),
}
"""The sparse task of bsuite: one of 2^rows sequences of actions is paid."""

COSTS = "Acrobot-v1", "MountainCar-v0"
"""gymnax tasks that pay -1 a step, in all down to -1 / (1 - gamma); a bonus is above 0."""

BOTH_SIGNS = (
    "Catch-bsuite",
    "MemoryChain-bsuite",
    "UmbrellaChain-bsuite",
    "MNISTBandit-bsuite",
    "GaussianBandit-misc",
)
"""gymnax tasks that pay and cost: on `COMMON`'s support all that costs would be worth 0."""

PAYS_OFTEN = "CartPole-v1", "Pong-misc", "BernoulliBandit-misc", "MetaMaze-misc"
"""gymnax tasks that pay 1 a step, or (MetaMaze) 10 about every ten: in all 1 / (1 - gamma)."""

DEBUG = tables.TINY | {
    **options("rainbow", hidden_dim=16, num_atoms=11, batch_size=32, num_envs=8),
    **options("rainbow", initial_agent_steps=200, agent_steps_per_update=4),
    **options("rainbow", anneal_agent_steps=2_000, target_every=20, replay_capacity=1_000),
    **options("re3", ring_size=1_000, search_size=None),
}


def preset(task_id: str, name: PresetName) -> RunConfig:
    """Configuration of any device task with discrete actions."""
    torso = "minatar" if task_id.endswith("-MinAtar") else "mlp"
    own = DEEP_SEA if task_id.startswith("DeepSea-bsuite") else {}
    support = {}
    if task_id in COSTS:
        support = options("rainbow", v_min=-100.0)
    elif task_id in BOTH_SIGNS:
        support = options("rainbow", v_min=-30.0)
    elif task_id in PAYS_OFTEN:
        support = options("rainbow", v_max=100.0)
    of_task = {"rainbow.torso": torso} | support
    return tables.run(COMMON, of_task, DEBUG if name == "debug" else own)
