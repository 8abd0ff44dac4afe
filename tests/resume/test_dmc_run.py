"""A killed run from pixels resumes bit for bit: learner, replay, latents, lanes."""

import random
import signal

import pytest

from tests.resume.compare import assert_same_run, leaves, rows
from tests.resume.test_exact_resume import wait_for_rows

pytest.importorskip("dm_control")
pytestmark = [pytest.mark.resume, pytest.mark.slow]

OPTIONS = (
    *("--env", "pendulum_swingup", "--preset", "debug", "--dmc.renderer", "warp"),
    *("--dmc.image-size", "24", "--sac.augmentation", "shift", "--seeds", "1"),
    *("--steps", "12000", "--chunk-updates", "20", "--evaluation.every-env-frames", "4000"),
    *("--evaluation.episodes", "1"),
)
OFTEN = ("--checkpoint-seconds", "0.05")


def test_killed_twice(start, finish, tmp_path):
    """SIGKILL at random moments, once before the replay is full and once after."""
    reference, out = tmp_path / "reference", tmp_path / "run"
    finish(*OPTIONS, "--out", str(reference))
    resume: tuple[str, ...] = ()
    for first, last in ((1, 8), (14, 26)):
        process = start(*OPTIONS, *OFTEN, "--out", str(out), *resume)
        count = random.randint(first, last)
        print(f"SIGKILL after row {count} of train.csv")
        wait_for_rows(process, out / "train.csv", count)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        resume = ("--resume",)
    said = finish(*OPTIONS, *OFTEN, "--out", str(out), "--resume")
    assert "resuming from env frame" in said
    assert_same_run(out, reference)


def test_the_comparison_covers_lanes_and_a_wrapped_replay(finish, tmp_path):
    """The state compared above includes the lanes, and updates on a replay that wrapped."""
    finish(*OPTIONS, "--out", str(tmp_path / "run"))
    state = leaves(tmp_path / "run")
    assert any("lanes/env" in name for name in state)
    assert int(state["replay/num_transitions"][0]) == 600 > 200
    assert int(state["counters/updates"][0]) == 600 - 30
    assert len(rows(tmp_path / "run" / "eval.csv")) == 4
