"""Files of weights: the tensors read, the files refused, and that no code in them runs."""

import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch

from re3_jax.networks import weights_file

FORMATS = ["zip", "legacy"]


def write(content, path, written):
    torch.save(content, path, _use_new_zipfile_serialization=written == "zip")
    return path


@pytest.mark.parametrize("written", FORMATS)
def test_every_kind_of_tensor(written, tmp_path):
    base = torch.arange(24.0).reshape(4, 6)
    content = {
        "transposed": base.T,
        "part": base[1:3, ::2],
        "repeated": torch.arange(3.0).expand(5, 3),
        "scalar": torch.tensor(7),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "half": torch.tensor([1.5, -2.0]).half(),
        "bfloat16": torch.tensor([1.5, -2.0]).bfloat16(),
        "bytes": torch.tensor([1, 255], dtype=torch.uint8),
        "flags": torch.tensor([True, False]),
        "double": torch.tensor([1e300], dtype=torch.float64),
    }
    tensors = weights_file.read(write(content, tmp_path / "file", written))
    assert tensors.keys() == content.keys()
    for name, expected in content.items():
        expected = expected.detach()
        np.testing.assert_array_equal(
            tensors[name].astype(np.float64), expected.double().numpy(), err_msg=name
        )
        assert str(tensors[name].dtype) == str(expected.dtype).removeprefix("torch."), name


@pytest.mark.parametrize("written", FORMATS)
def test_entries_that_are_not_tensors_are_skipped(written, tmp_path):
    network = torch.nn.Linear(2, 3)
    content = {
        "step": 5,
        "numpy": np.float64(0.5),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "set": {1, 2},
        "object": network,
        "deep": {"er": network.state_dict(), 3: torch.ones(1)},
    }
    tensors = weights_file.read(write(content, tmp_path / "file", written))
    assert set(tensors) == {"deep.er.weight", "deep.er.bias", "deep.3"}


class ParameterOf2017:
    """A parameter as PyTorch 0.1 pickled it, as in torchvision's first files."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return torch.nn.parameter.Parameter, (self.data,), (True, False, {})


def test_parameters_of_2017(tmp_path):
    path = write({"weight": ParameterOf2017(torch.ones(2, 3))}, tmp_path / "file", "legacy")
    np.testing.assert_array_equal(weights_file.read(path)["weight"], np.ones((2, 3)))


class Harmful:
    """Runs a command when unpickled."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("written", FORMATS)
def test_code_in_a_file_is_not_run(written, tmp_path):
    trace = tmp_path / "trace"
    harmful = Harmful(f"touch {trace}")
    pickle.loads(pickle.dumps(harmful))
    assert trace.exists()
    trace.unlink()
    path = write({"weight": torch.ones(1), "harm": harmful}, tmp_path / "file", written)
    assert weights_file.read(path).keys() == {"weight"}
    assert not trace.exists()


def test_a_pickle_cannot_ask_for_a_memo_of_gigabytes(tmp_path):
    path = tmp_path / "file"
    put_at_the_end = pickle.LONG_BINPUT + b"\xf0\xff\xff\xff"
    path.write_bytes(pickle.PROTO + b"\x02" + pickle.NONE + put_at_the_end + pickle.STOP)
    with pytest.raises(ValueError, match="memo"):
        weights_file.read(path)


def test_a_tensor_cannot_reach_beyond_its_storage(tmp_path):
    path = write({"weight": torch.ones(4)}, tmp_path / "file", "zip")
    old = zipfile.ZipFile(path)
    forged = tmp_path / "forged"
    with zipfile.ZipFile(forged, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("data.pkl"):
                # The shape (4,) as the pickle spells it.
                assert content.count(b"K\x04\x85") == 1
                content = content.replace(b"K\x04\x85", b"K\xff\x85")
            new.writestr(name, content)
    with pytest.raises(ValueError, match="larger than its storage"):
        weights_file.read(forged)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=f"^there is no file {tmp_path / 'absent.pth'}$"):
        weights_file.read(tmp_path / "absent.pth")
    with pytest.raises(ValueError, match="^there is no file"):
        weights_file.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html>", b"version https://git-lfs"])
def test_another_kind_of_file_is_named(content, tmp_path):
    path = tmp_path / "page.pth"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="page.pth is not a file of weights"):
        weights_file.read(path)


def test_archives_and_pickles_of_other_programs_are_refused(tmp_path):
    archive, plain, compressed = (tmp_path / name for name in ("a", "b", "c"))
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("some/text", "none")
    plain.write_bytes(pickle.dumps({"weight": np.ones(3)}))
    torch.save({"weight": torch.zeros(100)}, compressed)
    unpacked = zipfile.ZipFile(io.BytesIO(compressed.read_bytes()))
    with zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as file:
        for name in unpacked.namelist():
            file.writestr(name, unpacked.read(name))
    for path, reason in ((archive, "did not write"), (plain, "did not write"), (compressed, "com")):
        with pytest.raises(ValueError, match=f"{path} is damaged or cannot be read .*{reason}"):
            weights_file.read(path)


@pytest.mark.parametrize("written", [*FORMATS, "safetensors"])
def test_a_file_that_is_cut_short(written, tmp_path):
    path = tmp_path / "file"
    content = {"first": torch.ones(50), "second": torch.ones(3, 4)}
    if written == "safetensors":
        safetensors.torch.save_file(content, path)
    else:
        write(content, path, written)
    whole = path.read_bytes()
    assert weights_file.read(path).keys() == content.keys()
    for length in {9, 20, len(whole) // 3, len(whole) // 2, len(whole) - 60, len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="file is damaged or cannot be read"):
            weights_file.read(path)
