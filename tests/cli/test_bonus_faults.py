"""The figure of planted faults: the fault is in the bonus; the picture draws what runs wrote."""

import csv
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.figures import bonus_faults
from experiments.figures.bonus_faults import PANELS, PLUGIN
from experiments.figures.runs import Runs
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import IntrinsicBatch, RE3Config, Step
from re3_jax.runs import bonuses, plugins


def test_the_planted_bonus_finds_every_state_at_distance_0():
    # No other test of this process sees the bonus.
    with mock.patch.dict(bonuses.BONUSES), mock.patch.object(plugins, "_loaded", {}):
        plugins.load(str(PLUGIN))
        bonus = bonuses.BONUSES["constant_latents"].make(None, RE3Config(ring_size=16))
    spec = EnvSpec("plane", (2,), np.dtype(np.float32), Discrete(2), 10)
    state = bonus.init(jax.random.key(0), spec)
    seen = jnp.arange(12.0).reshape(6, 2)
    state, index = bonus.observe(state, Step(seen))
    batch = IntrinsicBatch(seen, jnp.zeros(6, jnp.int32), seen, index, jnp.int32(0))
    reward, _, info = bonus.reward(state, batch)
    np.testing.assert_array_equal(reward, 0.0)
    assert info["nearest_distance_p95"] == 0.0


def test_it_draws_a_right_run_and_two_wrong_ones(monkeypatch, tmp_path):
    asked = []

    def ensure(runs, run):
        asked.append(run)
        folder = runs.folder_of(run)
        folder.mkdir(parents=True)
        with (folder / "train.csv").open("w", newline="") as out:
            table = csv.writer(out)
            table.writerow(["seed", "env_frames", *PANELS])
            table.writerows([[1, frames, *([0.5] * len(PANELS))] for frames in (100, 200)])
        (folder / "eval.csv").write_text("seed,env_frames,return_mean\n1,100,0\n1,200,1\n")
        return folder

    monkeypatch.setattr(Runs, "ensure", ensure)
    words = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--seeds", "1"]
    assert bonus_faults.main(words) == 0
    right, large, constant = asked
    assert not right.changes and right.bonus == "re3"
    assert float(large.changes["re3.beta"]) == pytest.approx(1.0)
    assert constant.changes["plugin"] == str(PLUGIN)
    assert (tmp_path / "out" / "diagnostics.png").read_bytes().startswith(b"\x89PNG")
