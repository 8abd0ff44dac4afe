"""Watches the calls by which this process changes files below a folder.

Opening for writing, renaming, making, removing and truncating are found by an audit hook, which no
library can avoid; `os.fsync` and writes of Python's files are replaced meanwhile. A file's write is
split, and the watcher is called when half of it is written. What tensorstore writes from C++ is not
seen; a random SIGKILL meets it.
"""

import builtins
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

At = Callable[[str, str], None]
"""(kind of call, path) -> None; what it raises, the call raises."""

EVENTS = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_watching: list["_Watch"] = []


class _Watch:
    def __init__(self, folder: Path, at: At):
        self.folder, self._at = str(folder.absolute()), at
        self._lock, self._own = threading.RLock(), threading.local()

    def __call__(self, kind: str, path: Any, relative: bool = False) -> None:
        if isinstance(path, int) or getattr(self._own, "busy", False):
            return
        name = os.fsdecode(path)
        if not relative and not os.path.abspath(name).startswith(self.folder):
            return
        with self._lock:
            self._own.busy = True
            try:
                self._at(kind, name)
            finally:
                self._own.busy = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or event not in EVENTS:
        return
    if event == "open" and not arguments[2] & WRITING:
        return
    # Removing a tree names its entries relative to an open folder.
    relative = event in ("os.remove", "os.rmdir") and arguments[1] != -1
    _watching[0](event, arguments[0], relative)


class _HalfWritten(io.FileIO):
    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        written = super().write(view[: len(view) // 2])
        _watching and _watching[0]("write", self.name)
        return written + super().write(view[len(view) // 2 :])

    def truncate(self, size: int | None = None) -> int:
        _watching and _watching[0]("os.truncate", self.name)
        return super().truncate(size)


def _open(
    file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *rest: Any, **named: Any
) -> Any:
    if isinstance(file, int) or not set(mode) & set("wax") or "+" in mode or buffering == 0:
        return _real_open(file, mode, buffering, encoding, *rest, **named)
    buffered = io.BufferedWriter(_HalfWritten(os.fspath(file), mode.strip("bt")))
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding)


_real_open, _real_fsync = builtins.open, os.fsync
sys.addaudithook(_audit)


@contextmanager
def watched(folder: Path, at: At) -> Iterator[None]:
    """Calls `at` before each change below `folder`, and in the middle of each write of a file."""
    watch = _Watch(folder, at)

    def fsync(handle: int) -> None:
        watch("os.fsync", folder)
        _real_fsync(handle)

    _watching.append(watch)
    try:
        with (
            mock.patch.object(builtins, "open", _open),
            mock.patch.object(io, "open", _open),
            mock.patch.object(os, "fsync", fsync),
        ):
            yield
    finally:
        _watching.clear()
