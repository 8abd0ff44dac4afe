"""Rainbow on the device: MinAtar, and any other task with discrete actions.

The paper has Rainbow on Atari, with Kaixhin/Rainbow's defaults, which are those of
`RainbowConfig`. What is smaller here than Atari has smaller numbers, near those of the MinAtar
experiments of Obando-Ceron and Castro (2021, "Revisiting Rainbow"), but for the updates: a batch
of 128 every 16 agent steps instead of 32 every 4, which learns from as many transitions in half
the time. The bonus is the paper's,
log(1 + distance) with beta 0.0001 (Appendix "Details on Atari experiments"); of what that text
leaves open `docs/deviations.md` says what was chosen.
"""

from dataclasses import replace

from experiments.config import EvaluationConfig, PresetName, RunConfig
from experiments.presets import dmc
from re3_jax.agents.rainbow.config import RainbowConfig, Torso
from re3_jax.intrinsic.icm import ICMConfig
from re3_jax.intrinsic.rnd import RNDConfig

SMALL = RainbowConfig(
    hidden_dim=128,
    v_min=0.0,
    v_max=30.0,
    learning_rate=5e-4,
    target_every=250,
    batch_size=128,
    replay_capacity=100_000,
    initial_agent_steps=5_000,
    agent_steps_per_update=16,
    anneal_agent_steps=1_000_000,
    num_envs=16,
)

DEEP_SEA = replace(
    SMALL,
    noisy=False,
    n_steps=1,
    v_min=-0.5,
    v_max=2.0,
    learning_rate=1e-3,
    adam_eps=1e-7,
    target_every=50,
    batch_size=64,
    replay_capacity=60_000,
    initial_agent_steps=500,
    agent_steps_per_update=4,
    num_envs=8,
)
"""One step at a time: a bonus is added to the first reward of n, and would count for the others."""

DEEP_SEA_RANK = 300
"""Every cell is as far from every other: only those seen less often than that are rewarded."""

RE3 = replace(dmc.PAPER_RE3, normalize="none", log1p=True, beta=1e-4, rho=0.0)


def preset(task_id: str, name: PresetName) -> RunConfig:
    """Configuration of any device task with discrete actions."""
    torso: Torso = "minatar" if task_id.endswith("-MinAtar") else "mlp"
    rainbow = replace(SMALL, torso=torso)
    config = RunConfig(
        seeds=5,
        steps=1_000_000,
        rainbow=rainbow,
        re3=replace(RE3, ring_size=rainbow.replay_capacity),
        rnd=RNDConfig(beta=1e-4),
        icm=ICMConfig(beta=1e-4),
        evaluation=EvaluationConfig(every_env_frames=20_000, episodes=20, greedy=True),
    )
    if task_id.startswith("DeepSea-bsuite") and name != "debug":
        config = _on_deep_sea(config)
    return shrink(config) if name == "debug" else config


def _on_deep_sea(config: RunConfig) -> RunConfig:
    """The sparse task of bsuite: one of 2^rows sequences of actions is paid."""
    return replace(
        config,
        steps=DEEP_SEA.replay_capacity,
        rainbow=replace(DEEP_SEA, torso=config.rainbow.torso),
        re3=replace(
            config.re3,
            first_neighbour=DEEP_SEA_RANK,
            last_neighbour=DEEP_SEA_RANK,
            ring_size=DEEP_SEA.replay_capacity,
            merge_copies=True,
            beta=0.5,
        ),
        evaluation=EvaluationConfig(every_env_frames=4_000, episodes=2, greedy=True),
    )


def shrink(config: RunConfig) -> RunConfig:
    """The same program with small numbers, for tests and first tries."""
    return replace(
        config,
        seeds=2,
        steps=2_000,
        tensorboard=False,
        rainbow=replace(
            config.rainbow,
            hidden_dim=16,
            num_atoms=11,
            batch_size=32,
            agent_steps_per_update=4,
            num_envs=8,
            replay_capacity=1_000,
            initial_agent_steps=200,
            anneal_agent_steps=2_000,
            target_every=20,
        ),
        re3=replace(config.re3, ring_size=1_000, search_size=None),
        rnd=replace(config.rnd, hidden_dim=32),
        icm=replace(config.icm, hidden_dim=32),
        learned=replace(config.learned, hidden_dim=32),
        evaluation=replace(config.evaluation, every_env_frames=1_000, episodes=2),
    )
