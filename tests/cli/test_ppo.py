"""AGENT=ppo: presets of every suite, and what is refused."""

from itertools import product

import pytest

from re3_jax.runs.build import prepared
from re3_jax.runs.config import flatten
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve

DISCRETE = "doorkey_6x6", "gymnax:CartPole-v1", "gymnax:Breakout-MinAtar"
CONTINUOUS = "gymnax:Pendulum-v1", "brax:halfcheetah"
PRESETS = "recommended", "paper", "released", "debug"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", (*DISCRETE, "pixels:bar", *CONTINUOUS))
def test_presets(task, preset):
    config = resolve(task, agent="ppo", preset=preset)
    assert config.evaluation.every_env_frames % config.frames_per_update(1) == 0
    assert config.re3.ring_size >= config.frames_per_update(1)
    anneals = preset != "debug" and task != "doorkey_6x6"
    assert config.ppo.anneal_agent_steps == (config.steps if anneals else None)
    continuous = task in CONTINUOUS
    assert config.ppo.normalize_observations == continuous
    assert config.ppo.scaled_rewards == ("all" if continuous else "none")


PIXELS = "cheetah_run_sparse", "cartpole_swingup", "seaquest"


@pytest.mark.parametrize(
    ("task", "preset"),
    [
        *product(PIXELS, PRESETS),
        *product(PIXELS[:2], ["small"]),
        ("seaquest", "data_efficient"),
    ],
)
def test_presets_of_pixels(task, preset):
    config = resolve(task, agent="ppo", preset=preset)
    repeat = 4 if task == "seaquest" else config.dmc.action_repeat
    update = config.frames_per_update(repeat)
    assert config.evaluation.every_env_frames % update == 0
    assert config.choose_chunk_updates(repeat) * config.ppo.rollout_length <= 250
    assert config.re3.ring_size >= config.stored_steps
    over = config.ppo.anneal_agent_steps
    assert over is None if preset == "debug" else over == config.steps // repeat
    assert not config.ppo.normalize_observations
    if task != "seaquest" and preset != "debug":
        assert (config.ppo.num_envs, config.ppo.rollout_length) == (16, 128)
        assert config.dmc.image_size == (48 if preset == "small" else 84)
    if preset not in ("small", "debug"):
        rows, columns = (84, 84) if task == "seaquest" else [config.dmc.image_size] * 2
        assert config.re3.image_crop <= min(rows, columns)


def test_atari_has_cleanrls_numbers():
    """`ppo_atari.py`."""
    ppo, run = resolve("seaquest", agent="ppo").ppo, resolve("seaquest", agent="ppo")
    assert (ppo.num_envs, ppo.rollout_length, ppo.num_minibatches, ppo.num_epochs) == (8, 128, 4, 4)
    assert (ppo.learning_rate, ppo.clip_epsilon, ppo.entropy_coef) == (2.5e-4, 0.1, 0.01)
    assert (ppo.reward_clip, ppo.hidden_dim, ppo.anneal_agent_steps) == (1.0, 512, 10_000_000)
    assert run.steps == 40_000_000


def test_minatar_has_purejaxrls_numbers():
    """Those of its notebook `brax_minatar.ipynb`."""
    run = resolve("gymnax:Breakout-MinAtar", agent="ppo")
    ppo = run.ppo
    assert (run.steps, ppo.num_envs, ppo.rollout_length) == (10_000_000, 64, 128)
    assert (ppo.num_epochs, ppo.num_minibatches, ppo.learning_rate) == (4, 8, 5e-3)
    assert (ppo.discount, ppo.gae_lambda, ppo.clip_epsilon) == (0.99, 0.95, 0.2)
    assert (ppo.entropy_coef, ppo.value_coef, ppo.max_grad_norm) == (0.01, 0.5, 0.5)
    assert ppo.anneal_agent_steps == run.steps


@pytest.mark.parametrize("task", ["doorkey_6x6", "brax:halfcheetah", "walker_run_sparse"])
@pytest.mark.parametrize("preset", ["paper", "released"])
def test_the_bonus_has_the_numbers_of_the_suites_other_agent(task, preset):
    ours, other = (flatten(resolve(task, agent, preset=preset)) for agent in ("ppo", None))
    assert {n: v for n, v in ours.items() if n.startswith("re3.")} == {
        n: v for n, v in other.items() if n.startswith("re3.")
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--env gymnax:CartPole-v1 --steps 600000", "--ppo.anneal-agent-steps 500000 .* 600000"),
        ("--env cheetah_run_sparse --steps 600000", "--ppo.anneal-agent-steps .* of 150000 agent"),
        ("--env cheetah_run_sparse --preset debug --steps 300", "less than one update, .* 400 env"),
        ("--env cheetah_run_sparse --ppo.reward-clip 0", "--ppo.reward-clip must be a finite num"),
        (
            "--env brax:halfcheetah --ppo.recurrent",
            "--ppo.num-minibatches 32 must divide the 16",
        ),
        ("--env doorkey_6x6 --ppo.num-minibatches 7", "--ppo.num-minibatches 7 must divide .*2048"),
        ("--env doorkey_6x6 --ppo.scaled-rewards intrinsic", "set --ppo.intrinsic-value-head"),
        ("--env doorkey_6x6 --a2c.num-envs 4", "no effect with --agent ppo"),
        ("--env doorkey_6x6 --re3.ring-size 2000", "cannot hold one rollout of 2048 states"),
    ],
)
def test_what_is_refused(words, sentence):
    with pytest.raises(UsageError, match=sentence):
        prepared(parse([*words.split(), "--agent", "ppo"]))
