"""`python -m experiments.evaluate`: the last checkpoint, with the run's or other settings."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.resume.compare import rows
from tests.resume.conftest import ROOT, STEPS

pytestmark = [pytest.mark.resume, pytest.mark.slow]


@pytest.fixture
def evaluate(environment, reference):
    """The command's output for the reference run."""

    def evaluate(*words: str):
        done = subprocess.run(
            [sys.executable, "-m", "experiments.evaluate", "--run", str(reference), *words],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
            timeout=1200,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    return evaluate


def test_equals_the_last_evaluation_of_the_run(evaluate, reference):
    """Same weights, env frame and key: the same episodes, to the last bit of float32."""
    before = {p: p.read_bytes() for p in reference.rglob("*") if p.is_file()}
    printed = evaluate()
    assert (printed["env_frames"], printed["episodes"], printed["greedy"]) == (STEPS, 4, False)
    last = rows(reference / "eval.csv")[-2:]
    assert list(printed["seeds"]) == [row["seed"] for row in last]
    for row in last:
        for name, value in printed["seeds"][row["seed"]].items():
            assert np.float32(value) == np.float32(row[name]), name
    assert any(float(row["return_std"]) > 0 for row in last)
    mean = np.mean([float(row["return_mean"]) for row in last])
    assert printed["return_mean"] == pytest.approx(mean, rel=1e-6)
    assert {p: p.read_bytes() for p in reference.rglob("*") if p.is_file()} == before


def test_other_episodes_and_greedy(evaluate):
    printed = evaluate("--episodes", "3", "--greedy")
    assert (printed["episodes"], printed["greedy"]) == (3, True)
    assert list(printed["seeds"]) == ["1", "2"]
    for statistics in printed["seeds"].values():
        assert 0 <= statistics["return_mean"] <= 1
        assert statistics["return_std"] >= 0
        # MiniGrid's limit for DoorKey-5x5 is 10 * 5 * 5 steps.
        assert 1 <= statistics["length_mean"] <= 250
    assert evaluate("--episodes", "3")["seeds"] != printed["seeds"]
    once = evaluate("--episodes", "1")
    assert [found["return_std"] for found in once["seeds"].values()] == [0.0, 0.0]
