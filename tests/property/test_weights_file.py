"""Files of weights with changed or missing bytes are read, or refused in one sentence."""

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax.networks import weights_file


def files():
    content = {"conv.weight": torch.arange(12.0).reshape(3, 4), "deep": {"bias": torch.ones(3)}}
    with tempfile.TemporaryDirectory() as folder:
        for is_zip in (True, False):
            path = Path(folder) / "file"
            torch.save(content, path, _use_new_zipfile_serialization=is_zip)
            yield path.read_bytes()


WHOLE = list(files())


@settings(max_examples=300, deadline=None)
@given(data=st.data(), which=st.integers(0, 1))
def test_damaged_files_end_in_a_sentence_or_in_arrays(data, which):
    damaged = bytearray(WHOLE[which])
    places = st.integers(0, len(damaged) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=4)):
        damaged[place] = value
    del damaged[data.draw(st.one_of(st.just(len(damaged)), places)) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(damaged)
        try:
            tensors = weights_file.read(path)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            assert sum(array.size for array in tensors.values()) < 10_000


def test_the_whole_files_are_read(tmp_path):
    for content in WHOLE:
        (tmp_path / "file").write_bytes(content)
        assert set(weights_file.read(tmp_path / "file")) == {"conv.weight", "deep.bias"}
    with pytest.raises(ValueError):
        weights_file.read(tmp_path / "other")
