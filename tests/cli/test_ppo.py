"""AGENT=ppo: presets of every suite on the device, and what is refused."""

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
@pytest.mark.parametrize("task", (*DISCRETE, *CONTINUOUS))
def test_presets(task, preset):
    config = resolve(task, agent="ppo", preset=preset)
    assert config.evaluation.every_env_frames % config.frames_per_update(1) == 0
    assert config.re3.ring_size >= config.frames_per_update(1)
    anneals = preset != "debug" and task != "doorkey_6x6"
    assert config.ppo.anneal_agent_steps == (config.steps if anneals else None)
    continuous = task in CONTINUOUS
    assert config.ppo.normalize_observations == continuous
    assert config.ppo.scaled_rewards == ("all" if continuous else "none")


@pytest.mark.parametrize("task", ["doorkey_6x6", "brax:halfcheetah"])
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
        ("--env cheetah_run_sparse --preset paper", "--agent ppo learns from tasks on the device"),
        ("--env doorkey_6x6 --ppo.num-minibatches 7", "--ppo.num-minibatches 7 must divide .*2048"),
        ("--env doorkey_6x6 --ppo.scaled-rewards intrinsic", "set --ppo.intrinsic-value-head"),
        ("--env doorkey_6x6 --a2c.num-envs 4", "no effect with --agent ppo"),
        ("--env doorkey_6x6 --re3.ring-size 2000", "cannot hold one rollout of 2048 states"),
    ],
)
def test_what_is_refused(words, sentence):
    with pytest.raises(UsageError, match=sentence):
        prepared(parse([*words.split(), "--agent", "ppo"]))
