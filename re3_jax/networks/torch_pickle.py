"""Reads tensors from files of `torch.save`, without PyTorch and without running the file.

A pickle is a program that may call anything it names. This reader never imports a name. It looks
up the few names of tensors, storages and ordered dictionaries in a table; every other name becomes
`_Ignored`, which accepts all operations of a pickle and does nothing.

It reads both formats: the zip archive of PyTorch 1.6 and later, and the older sequence of pickles,
the format of torchvision's older files and of rlpyt's snapshots.
"""

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from typing import Any, BinaryIO

import jax.numpy as jnp
import numpy as np

ZIP_MAGIC = b"PK\x03\x04"
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001
DTYPES = {
    "DoubleStorage": np.dtype("<f8"),
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype(jnp.bfloat16),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}


def read_zip(file: BinaryIO) -> dict[str, np.ndarray]:
    """Tensors of a zip archive by dotted name; views in the file stay views.

    Raises:
      Exception: of any kind, if the file is damaged.
    """
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1:
            raise ValueError("a zip archive that torch.save did not write")
        root = names[0].removesuffix("data.pkl")
        # Uncompressed entries cannot grow beyond the size of the file.
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise ValueError("compressed, which files of torch.save never are")
        if root + "byteorder" in archive.namelist():
            if archive.read(root + "byteorder") != b"little":
                raise ValueError("written on a big-endian machine")
        unpickler = _Unpickler(io.BytesIO(archive.read(names[0])))
        content = unpickler.load()
        for key, storage in unpickler.storages.items():
            storage.fill(archive.read(f"{root}data/{key}"))
    return _named(content)


def read_legacy(file: BinaryIO) -> dict[str, np.ndarray]:
    """Tensors of a file from before PyTorch 1.6, named as in `read_zip`.

    Raises:
      Exception: of any kind, if the file is damaged.
    """
    if _Unpickler(file).load() != LEGACY_MAGIC or _Unpickler(file).load() != LEGACY_PROTOCOL:
        raise ValueError("a pickle that torch.save did not write")
    if not _Unpickler(file).load()["little_endian"]:
        raise ValueError("written on a big-endian machine")
    unpickler = _Unpickler(file)
    content = unpickler.load()
    for key in _Unpickler(file).load():
        storage = unpickler.storages[key]
        count = int.from_bytes(file.read(8), "little")
        if count != storage.count:
            raise ValueError("cut short")
        storage.fill(file.read(storage.num_bytes))
    return _named(content)


class _StorageType:
    """Stands for `torch.FloatStorage` and its like."""

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype


class _Storage:
    """A flat array whose bytes come after the pickle that names it."""

    def __init__(self, dtype: np.dtype, count: int):
        self.dtype, self.count = dtype, count
        self.values: np.ndarray | None = None

    @property
    def num_bytes(self) -> int:
        return self.count * self.dtype.itemsize

    def fill(self, content: bytes) -> None:
        if len(content) != self.num_bytes:
            raise ValueError("cut short")
        self.values = np.frombuffer(content, self.dtype)


class _Tensor:
    """A strided view of a storage. Parameters pickled in 2017 call `__setstate__`."""

    def __init__(self, storage: _Storage, offset: int, shape: tuple, strides: tuple, *_: Any):
        numbers = (offset, *shape, *strides)
        if len(shape) != len(strides) or any(type(n) is not int or n < 0 for n in numbers):
            raise ValueError("a tensor of impossible shape")
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if 0 not in shape and last >= storage.count:
            raise ValueError("a tensor that is larger than its storage")
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides

    def __setstate__(self, state: Any) -> None:
        pass

    def array(self) -> np.ndarray:
        if self.storage.values is None:
            raise ValueError("cut short")
        if 0 in self.shape:
            return np.empty(self.shape, self.storage.dtype)
        steps = [step * self.storage.dtype.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(
            self.storage.values[self.offset :], self.shape, steps, writeable=False
        )


class _Parameter:
    """Stands for `torch.nn.Parameter`; returns its tensor."""

    def __new__(cls, tensor: Any, *_: Any) -> Any:
        return tensor


class _Ignored:
    """Stands for everything else: optimiser state, devices, modules, anything harmful."""

    def __new__(cls, *_: Any, **__: Any) -> "_Ignored":
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass

    def extend(self, values: Any) -> None:
        pass


class _Unpickler(pickle.Unpickler):
    """Looks up the few names that lead to tensors in a table, and imports none."""

    def __init__(self, file: BinaryIO):
        start = file.tell()
        for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
            # CPython allocates a memo as large as its largest index.
            if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
                raise ValueError("a pickle whose memo has holes")
        file.seek(start)
        super().__init__(file, encoding="utf-8")
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in DTYPES:
            return _StorageType(DTYPES[name])
        known: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch", "Size"): tuple,
            ("torch._utils", "_rebuild_tensor"): lambda *rest: _Tensor(*rest),
            ("torch._utils", "_rebuild_tensor_v2"): lambda *rest: _Tensor(*rest),
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *rest: tensor,
            ("torch.nn.parameter", "Parameter"): _Parameter,
        }
        return known.get((module, name), _Ignored)

    def persistent_load(self, reference: Any) -> Any:
        if reference[0] != "storage":
            # The class of a pickled module, with its source.
            return _Ignored
        _, storage_type, key, _, count, *views = reference
        if not isinstance(storage_type, _StorageType) or any(views):
            return _Ignored()
        return self.storages.setdefault(key, _Storage(storage_type.dtype, count))


def _named(content: Any) -> dict[str, np.ndarray]:
    """Tensors in nested dictionaries by the dotted path to them."""
    tensors: dict[str, np.ndarray] = {}
    seen: set[int] = set()

    def walk(value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, _Tensor):
            tensors[".".join(path)] = value.array()
        elif isinstance(value, dict) and id(value) not in seen:
            seen.add(id(value))
            for key, entry in value.items():
                walk(entry, (*path, str(key)))

    walk(content, ())
    return tensors
