"""Rainbow in the device loop: a stopped and resumed run equals an uninterrupted one."""

import pytest

from tests.resume.compare import assert_same_run

pytestmark = [pytest.mark.resume, pytest.mark.slow]

OPTIONS = (
    *("--env", "gymnax:Catch-bsuite", "--agent", "rainbow", "--bonus", "re3", "--preset", "debug"),
    *("--no-tensorboard", "--evaluation.every-env-frames", "400", "--chunk-updates", "25"),
)


def test_extended_run_equals_one_as_long(finish, tmp_path):
    """Replay, priorities, latents, Adam and target network included."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    finish(*OPTIONS, "--steps", "1600", "--out", str(whole))
    finish(*OPTIONS, "--steps", "800", "--out", str(parts))
    finish("--out", str(parts), "--resume", "--steps", "1600")
    assert_same_run(parts, whole)
