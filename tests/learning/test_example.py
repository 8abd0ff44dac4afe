"""The examples: RE3 in a loop outside this library, and TD3 as a plugin."""

import json
from functools import partial

import jax
import numpy as np
import pytest

from examples import re3_in_a_plain_loop as example
from re3_jax.intrinsic import none
from tests.cli.plugin_runs import command


def test_a_few_updates_run():
    train = jax.jit(partial(example.train, bonus=example.RE3, num_updates=3))
    episode_return, visited = train(jax.random.key(0))
    assert np.isfinite(episode_return)
    assert 0.0 < visited < 0.5


@pytest.mark.slow
@pytest.mark.learning
def test_re3_visits_more_and_finds_the_goal():
    keys = jax.random.split(jax.random.key(1), 8)
    returns, visited = {}, {}
    for name, bonus in (("none", none()), ("re3", example.RE3)):
        train = partial(example.train, bonus=bonus, num_updates=example.NUM_UPDATES)
        returns[name], visited[name] = jax.jit(jax.vmap(train))(keys)
    # Half of the seeds, because rounding decides which of them find the goal.
    assert (visited["re3"] > 1.5 * visited["none"].max()).sum() >= 4
    assert (returns["none"] == -200.0).all()
    assert (returns["re3"] > -200.0).sum() >= 4


@pytest.mark.slow
@pytest.mark.learning
def test_td3_learns_pendulum_in_10_000_frames(tmp_path):
    """Untrained policies have -1,100 to -1,500 there."""
    words = ("--env", "gymnax:Pendulum-v1", "--agent", "td3", "--bonus", "none", "--seeds", "2")
    plugin = ("--plugin", "examples/plugin_off_policy_agent.py")
    done = command(*words, *plugin, "--steps", "10000", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "summary.json").read_text())["final_return_mean"] > -400
