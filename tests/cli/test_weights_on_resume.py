"""A run resumes only with the file of weights that it started with."""

import pytest

from re3_jax.runs import run_folder
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse

WORDS = "--env cheetah_run_sparse --bonus atc --preset debug".split()


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "params.pkl"
    path.write_bytes(b"first")
    return path


def claim(tmp_path, weights, *more):
    words = [*WORDS, "--bonus.weights", str(weights), "--out", str(tmp_path / "run"), *more]
    return run_folder.claim(parse(words))


def test_a_run_resumes_with_the_same_file_only(tmp_path, weights):
    folder = claim(tmp_path, weights)
    assert claim(tmp_path, weights, "--resume") == folder
    before = (folder / "config.json").read_bytes()
    weights.write_bytes(b"other")
    with pytest.raises(UsageError, match="is not the file .* put that file back"):
        claim(tmp_path, weights, "--resume")
    assert (folder / "config.json").read_bytes() == before


def test_a_missing_file_is_refused(tmp_path, weights):
    claim(tmp_path, weights)
    weights.unlink()
    with pytest.raises(UsageError, match="cannot be read .*name the right one"):
        claim(tmp_path, weights, "--resume")


def test_a_moved_file_is_the_same_file(tmp_path, weights):
    folder = claim(tmp_path, weights)
    moved = weights.rename(tmp_path / "moved.pkl")
    assert claim(tmp_path, moved, "--resume") == folder
    moved.write_bytes(b"other")
    with pytest.raises(UsageError, match="is not the file"):
        claim(tmp_path, moved, "--resume")
