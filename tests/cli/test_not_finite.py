"""A run whose agents are NaN ends with one sentence; one that has others too goes on."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import re3_jax
from re3_jax.commands import train
from re3_jax.runs import run_folder, session
from re3_jax.training import finite

RUN = ("--env", "minigrid:Empty-5x5", "--preset", "debug", "--seeds", "2", "--no-video")


def test_a_seed_is_finite_if_all_of_its_floats_are():
    state = {
        "key": jax.random.split(jax.random.key(0), 4),
        "count": jnp.arange(4),
        "kernel": jnp.zeros((4, 2, 3)).at[1, 1, 2].set(jnp.nan),
        "half": jnp.zeros((4, 5), jnp.bfloat16).at[3, 0].set(-jnp.inf),
        "scalar": jnp.ones(4),
    }
    assert finite.finite_seeds(state, 4) == [True, False, True, False]


@pytest.mark.parametrize("state", [(), {"table": jnp.zeros((2, 5), jnp.int32)}])
def test_a_state_without_floats_is_finite(state):
    assert finite.finite_seeds(state, 2) == [True, True]


def test_where_no_agent_is_left_the_run_ends_and_keeps_its_checkpoint(tmp_path, capsys):
    too_large = ("--a2c.learning-rate", "1e30", "--a2c.max-grad-norm", "1e30")
    code = train.main([*RUN, "--steps", "4096", *too_large, "--out", str(tmp_path)])
    (error,) = capsys.readouterr().err.splitlines()
    assert code == 2
    assert "at env frame 1,024 the parameters of every seed are NaN or infinite" in error
    assert run_folder.newest_checkpoint(tmp_path) == 0
    assert not (tmp_path / "summary.json").exists()


def test_the_others_go_on_and_the_summary_names_it(tmp_path, capsys, monkeypatch):
    def of_seeds(agent, seeds):
        def broken(leaf):
            is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
            return leaf.at[1].set(jnp.nan) if is_float else leaf

        return finite.finite_seeds(jax.tree.map(broken, agent), seeds)

    train_first = ["--steps", "1024", "--seed", "5", "--out", str(tmp_path)]
    assert train.main([*RUN, *train_first]) == 0
    assert json.loads((tmp_path / "summary.json").read_text())["not_finite_seeds"] == []
    monkeypatch.setattr(session, "finite_seeds", of_seeds)
    capsys.readouterr()
    assert train.main(["--resume", "--steps", "3072", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("parameters of seed 6 are NaN or infinite: the others go on") == 1
    assert "seed 6 became NaN or infinite" in said
    assert json.loads((tmp_path / "summary.json").read_text())["not_finite_seeds"] == [6]
    # A resumed run remembers it, and does not say it again.
    assert train.main(["--resume", "--steps", "4096", "--out", str(tmp_path)]) == 0
    assert "the others go on" not in capsys.readouterr().out
    run = re3_jax.load(tmp_path, progress=False)
    assert np.isfinite(run.curves["return_mean"]).all()
    assert math.isclose(run.curves["env_frames"][-1], 4096)


def test_from_python_the_chunk_that_led_there_can_be_looked_at(monkeypatch):
    options = {"preset": "debug", "seeds": 2, "progress": False}
    run = re3_jax.train("minigrid:Empty-5x5", steps=1024, **options)
    monkeypatch.setattr(session, "finite_seeds", lambda agent, seeds: [False, False])
    with pytest.raises(re3_jax.UsageError, match="env frame 2,048 the parameters of every seed"):
        run.train(steps=3072)
    assert run.metrics["env_frames"].tolist() == [1024, 2048]
