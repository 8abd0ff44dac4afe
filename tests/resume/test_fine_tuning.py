"""A killed fine-tuning run resumes bit for bit, even if its source has been deleted."""

import shutil
import signal

import pytest

from tests.resume.compare import assert_same_run, leaves
from tests.resume.conftest import OPTIONS
from tests.resume.test_exact_resume import OFTEN, wait_for_rows

pytestmark = [pytest.mark.resume, pytest.mark.slow]


@pytest.fixture(scope="module")
def source(finish, tmp_path_factory):
    """A run whose second seed is the one that fine-tuning starts from."""
    folder = tmp_path_factory.mktemp("source") / "run"
    words = [word for word in OPTIONS if word not in ("--steps", "12800")]
    finish(*words, "--pretrain", "1280", "--out", str(folder))
    return folder


def test_killed_while_fine_tuning(source, start, finish, tmp_path):
    words = (*OPTIONS, "--seeds", "1", "--seed", "2", "--init", str(tmp_path / "source"))
    shutil.copytree(source, tmp_path / "source")
    reference, out = tmp_path / "reference", tmp_path / "run"
    finish(*words, "--out", str(reference))
    process = start(*words, *OFTEN, "--out", str(out))
    wait_for_rows(process, out / "train.csv", 30)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    # The checkpoints hold everything inherited from it.
    shutil.rmtree(tmp_path / "source")
    said = finish("--out", str(out), "--resume")
    assert "resuming from env frame" in said
    assert_same_run(out, reference)
    encoder = [name for name in leaves(reference) if name.startswith("intrinsic/bonus/encoder/")]
    assert encoder
    for name in encoder:
        assert leaves(out)[name][0].tobytes() == leaves(source)[name][1].tobytes()


@pytest.mark.parametrize("half_written", [False, True])
def test_killed_before_its_first_checkpoint(source, finish, tmp_path, half_written):
    """The folder has no whole checkpoint, so the run starts again from its source."""
    words = (*OPTIONS, "--seeds", "1", "--steps", "1280", "--init", str(source))
    out = tmp_path / "run"
    finish(*words, "--out", str(tmp_path / "reference"))
    out.mkdir()
    shutil.copy(tmp_path / "reference" / "config.json", out)
    if half_written:
        # As orbax calls what it has not finished.
        (out / "checkpoints" / "0.orbax-checkpoint-tmp").mkdir(parents=True)
    said = finish("--out", str(out), "--resume")
    assert "starting it" in said
    assert_same_run(out, tmp_path / "reference")
