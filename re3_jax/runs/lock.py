"""Who may write into a run folder: the one process that holds the lock in it."""

import contextlib
import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path

from re3_jax.runs.errors import UsageError

NAME = ".lock"


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Locks a folder, or refuses one that another process has locked; every exit unlocks it."""
    with (folder / NAME).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another process is running in {folder}: wait for it or choose another --out"
            ) from None
        except OSError as error:
            print(
                f"note: no lock is to be had in {folder} ({error.strerror}): start no second run "
                "there before this one has ended",
                file=sys.stderr,
            )
        yield


def is_held(folder: Path) -> bool:
    """Whether a process has locked a folder."""
    try:
        with (folder / NAME).open() as file:
            # Shared, and given back at once: this happens only when no run holds it.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
