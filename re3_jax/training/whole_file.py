"""Files that are replaced in one step, so that a process killed meanwhile leaves the old one whole.

(io)
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives the path of a file to write, which takes the place of `path` as the block ends.

    On an error it is removed instead: on a full disk, what is half written takes the room of what
    is needed.

    Raises:
      OSError: `path` is no file, such as a device, its folder is missing, or the file could not be
        renamed.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "there is something else than a file", str(path))
    part = part_of(path)
    try:
        yield part
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def part_of(path: Path) -> Path:
    """The file that a process killed in `replacing(path)` leaves: hidden, and overwritten later."""
    return path.with_name(f".{path.name}.part")
