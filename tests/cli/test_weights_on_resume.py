"""A run resumes only with the file of weights that it started with."""

import pytest

import re3_jax
from re3_jax.commands import evaluate
from re3_jax.runs import fine_tuning, run_folder
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


def test_other_weights_are_refused_wherever_a_run_is_read(tmp_path, weights):
    """Before anything is built: the file is no snapshot at all."""
    folder = claim(tmp_path, weights)
    weights.write_bytes(b"other")
    for read in (re3_jax.load, lambda run: evaluate.evaluate(run, 2, True)):
        with pytest.raises(UsageError, match="is not the file that the run in .* was started with"):
            read(folder)


def test_a_fine_tuned_run_needs_the_same_file_wherever_it_is(tmp_path, weights):
    folder = claim(tmp_path, weights)
    source = run_folder.stored_config(folder, "")
    moved = tmp_path / "moved.pkl"
    moved.write_bytes(b"first")
    words = [*WORDS, "--bonus.weights", str(moved), "--init", str(folder)]
    fine_tuning._check_options(parse(words), source, folder)
    moved.write_bytes(b"other")
    with pytest.raises(UsageError, match=r"--bonus.weights is .*moved.pkl, but the run in"):
        fine_tuning._check_options(parse(words), source, folder)
    weights.write_bytes(b"other")
    words = [*WORDS, "--bonus.weights", str(weights), "--init", str(folder)]
    with pytest.raises(UsageError, match="is not the file that the run in .* was trained with"):
        fine_tuning._check_options(parse(words), source, folder)
