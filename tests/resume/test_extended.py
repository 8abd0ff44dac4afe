"""Agents in their loops: a stopped and resumed run equals an uninterrupted one."""

import pytest

from tests.resume.compare import assert_same_run, leaves

pytestmark = [pytest.mark.resume, pytest.mark.slow]

COMMON = "--preset", "debug", "--loggers", "none", "--evaluation.every-env-frames", "400"
RUNS = {
    # Replay, priorities, latents, Adam and target network included.
    "rainbow": ("gymnax:Catch-bsuite", "--chunk-updates", "25"),
    # Moments of observations and rewards, and the sums of rewards of both values.
    "ppo": (
        *("gymnax:Pendulum-v1", "--chunk-updates", "2", "--ppo.num-envs", "4"),
        *("--ppo.rollout-length", "25", "--ppo.num-minibatches", "5"),
        "--ppo.intrinsic-value-head",
    ),
    # Hidden states, and lanes on the host, in the middle of their episodes.
    "ppo with a memory": (
        *("minigrid:DoorKey-5x5", "--chunk-updates", "2", "--ppo.num-envs", "2"),
        *("--ppo.rollout-length", "25", "--ppo.recurrent"),
    ),
    # Joints and contacts of the physics, in the middle of their episodes.
    "rad on brax": ("brax:inverted_pendulum", "--chunk-updates", "25"),
    "ppo from pixels": ("pendulum_swingup", "--dmc.renderer", "warp"),
}


A2C = ("--agent", "a2c", "--chunk-updates", "25")
RAINBOW = ("--agent", "rainbow", "--chunk-updates", "25", "--rainbow.n-steps", "1")
PPO = (
    *("--agent", "ppo", "--chunk-updates", "2", "--ppo.num-envs", "2"),
    *("--ppo.rollout-length", "25"),
)
BONUSES = {
    # The first part ends within an episode: what lanes remember of theirs is in the checkpoint.
    "e3b": ("minigrid:DoorKey-5x5", *A2C),
    "noveld": ("minigrid:DoorKey-5x5", *A2C),
    "ngu": ("gymnax:CartPole-v1", *RAINBOW),
    "counts of episodes": ("minigrid:DoorKey-5x5", *A2C, "--counts.episodic"),
    "e3b with ppo": ("minigrid:DoorKey-5x5", *PPO),
    "noveld with ppo": ("minigrid:DoorKey-5x5", *PPO),
    "ngu with ppo": ("minigrid:DoorKey-5x5", *PPO),
    # Counters of the whole run, what a network has learned, and what is stored for the search. The
    # others are in `tests/cli/test_new_bonuses.py` and, with RE3, above.
    "counts": ("minigrid:DoorKey-5x5", *A2C),
    "rnd": ("minigrid:DoorKey-5x5", *PPO, "--rnd.normalize", "running_std"),
    "icm": ("gymnax:CartPole-v1", *RAINBOW),
    "inverse_dynamics": ("minigrid:DoorKey-5x5", *A2C),
    "contrastive": ("minigrid:DoorKey-5x5", *PPO),
    "vcse in the ring": (
        *("gymnax:CartPole-v1", *RAINBOW, "--vcse.neighbours", "ring"),
        *("--vcse.search-size", "200"),
    ),
}


def extended(words, finish, tmp_path, half=800):
    """Compares a run in two parts, the first of which ends within an episode, with one as long."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    finish(*words, "--steps", str(half), "--out", str(parts))
    assert leaves(parts)["lanes/episode_length"].any()
    finish(*words, "--steps", "1600", "--out", str(whole))
    finish("--out", str(parts), "--resume", "--steps", "1600")
    assert_same_run(parts, whole)


@pytest.mark.parametrize("name", RUNS)
def test_extended_run_equals_one_as_long(name, finish, tmp_path):
    (env, *options), agent = RUNS[name], name.partition(" ")[0]
    if "pixels" in name:
        pytest.importorskip("dm_control")
    words = ("--env", env, "--agent", agent, "--bonus", "re3", *COMMON, *options)
    # After 800 env frames each of the four lanes of Pendulum has just ended its first episode.
    extended(words, finish, tmp_path, 1200 if "Pendulum" in env else 800)


@pytest.mark.parametrize("name", BONUSES)
def test_extended_run_with_a_bonus_equals_one_as_long(name, finish, tmp_path):
    (env, *options), bonus = BONUSES[name], name.partition(" ")[0]
    words = ("--env", env, "--bonus", bonus, *COMMON, *options)
    extended(words, finish, tmp_path)
