"""A file is replaced in one step, or stays as it was."""

import os

import pytest

from re3_jax.training.whole_file import part_of, replacing


def test_a_file_is_the_old_one_until_the_block_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert part == part_of(path) and part.name.startswith(".")
    assert path.read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file_and_no_half_of_the_new(error, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(type(error)), replacing(path) as part:
        part.write_text("ne")
        raise error
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_what_a_killed_process_left_is_overwritten(tmp_path):
    path = tmp_path / "a.txt"
    part_of(path).write_text("half of a longer text")
    with replacing(path) as part:
        part.write_text("new")
    assert path.read_text() == "new" and not part_of(path).exists()


def test_what_is_no_file_is_not_replaced(tmp_path):
    """Such as /dev/null, which a process of root could replace for all others."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="something else than a file"), replacing(pipe):
        pytest.fail("began to write")
    assert pipe.is_fifo() and [*tmp_path.iterdir()] == [pipe]


def test_a_missing_folder_is_named_and_not_the_hidden_file_in_it(tmp_path):
    folder = tmp_path / "none"
    with pytest.raises(FileNotFoundError) as caught, replacing(folder / "a.txt"):
        pytest.fail("began to write")
    assert caught.value.filename == str(folder) and not folder.exists()
