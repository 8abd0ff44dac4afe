"""What holds of each bonus: nothing is compiled twice outside `jit`, and NaN stays where it is."""

import contextlib
from functools import cache, partial

import jax
import numpy as np
import pytest

from re3_jax.intrinsic import reward_rollout
from re3_jax.intrinsic.base import Step
from re3_jax.runs import build
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.options import parse

LENGTH, LANES = 5, 4
SPEC = build.make_environment("gymnax:CartPole-v1").spec
# Some need numbers of states, images or a file of weights.
OF_OTHER_TASKS = {"counts", "contrastive", "apt", "imagenet", "atc"}
NAMES = sorted(BONUSES.keys() - OF_OTHER_TASKS - {"none"})


@cache
def bonus_of(name):
    words = ["--env", "gymnax:CartPole-v1", "--agent", "a2c", "--bonus", name, "--preset", "debug"]
    config, _ = build.prepared(parse([*words, "--a2c.num-envs", str(LANES)]))
    return build.make_bonus(config)


def rollout(seed, nan_at=None):
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(LENGTH + 1, LANES, 4)).astype(np.float32)
    if nan_at is not None:
        seen[nan_at] = np.nan
    ended, actions = np.zeros((LENGTH, LANES), bool), rng.integers(0, 2, (LENGTH, LANES))
    value = rng.normal(size=(LENGTH, LANES)).astype(np.float32)
    return Step(seen[:-1], actions, seen[1:], ended, ended, value=value)


@contextlib.contextmanager
def compilations():
    names = []

    def count(name, seconds, **kwargs):
        names.extend([name] if "backend_compile" in name else [])

    jax.monitoring.register_event_duration_secs_listener(count)
    yield names
    jax.monitoring.unregister_event_duration_listener(count)


@pytest.mark.parametrize("name", NAMES)
def test_outside_jit_a_second_call_compiles_nothing(name):
    bonus = bonus_of(name)
    state = bonus.init(jax.random.key(0), SPEC, LANES)

    def play(state, seed):
        _, state, _ = reward_rollout(bonus, state, rollout(seed), 0, jax.random.key(seed))
        one = jax.tree.map(lambda leaf: leaf[0], rollout(seed))
        return bonus.observe(state, one)[0]

    state = play(state, 0)
    with compilations() as counted:
        play(state, 1)
        assert counted == []
        jax.jit(lambda x: x + 1)(0.0)
    assert len(counted) == 1


@pytest.mark.parametrize("name", NAMES)
def test_after_an_observation_with_nan_rewards_are_finite_again(name):
    bonus = bonus_of(name)
    state = bonus.init(jax.random.key(0), SPEC, LANES)
    program = jax.jit(partial(reward_rollout, bonus))
    finite = []
    for seed, nan_at in enumerate([None, (2, 1, 0), None, None]):
        steps = rollout(seed, nan_at)
        reward, state, _ = program(state, steps, 0, jax.random.key(seed))
        finite.append(np.isfinite(reward))
    assert not finite[1].all()
    assert finite[0].all() and finite[2].all() and finite[3].all()
