"""Dreamer in both loops: a stopped and resumed run equals an uninterrupted one."""

import pytest

from tests.resume.compare import assert_same_run, leaves

pytestmark = [pytest.mark.resume, pytest.mark.slow]

DREAMER = ("--agent", "dreamer", "--bonus", "re3", "--preset", "debug", "--seeds", "1")
ON_DEVICE = (
    *("--env", "pixels:bar", *DREAMER, "--chunk-updates", "25"),
    *("--evaluation.every-env-frames", "200"),
)
ON_HOST = (
    *("--env", "pendulum_swingup", *DREAMER, "--dmc.renderer", "warp", "--chunk-updates", "25"),
    *("--evaluation.episodes", "1", "--evaluation.every-env-frames", "500"),
)


@pytest.mark.parametrize(
    ("options", "half", "steps"), [(ON_DEVICE, 200, 400), (ON_HOST, 1_500, 2_500)]
)
def test_extended_run_equals_one_as_long(options, half, steps, finish, tmp_path):
    """World model, policy, optimisers, episodes, beliefs, bonus and, on the host, the physics.

    On the host it is stopped in the middle of an episode. Before 1,000 env frames there are random
    actions alone.
    """
    if options is ON_HOST:
        pytest.importorskip("dm_control")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    finish(*options, "--steps", str(half), "--out", str(parts))
    state = leaves(parts)
    assert state["counters/updates"][0] > 0
    assert state["lanes/episode_length"].any() or options is ON_DEVICE
    assert any(value.any() for name, value in state.items() if "belief" in name)
    finish(*options, "--steps", str(steps), "--out", str(whole))
    finish("--out", str(parts), "--resume", "--steps", str(steps))
    assert_same_run(parts, whole)
    assert leaves(parts)["counters/updates"][0] > state["counters/updates"][0]
