"""`python -m experiments.train --env TASK ...`: one run from the command line."""

import errno
import logging
import sys
from collections.abc import Sequence
from typing import Any

from experiments import machine
from experiments.errors import UsageError, refuse_lack_of_memory
from experiments.options import parse
from experiments.run import run

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (0, 2, 130 or 143)."""
    # Both also tell, in many lines, of a failed checkpoint, which is told below in one.
    for chatty in ("absl", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    machine.use_every_core()
    try:
        config = parse(list(sys.argv[1:] if argv is None else argv))
        machine.keep_compiled_programs()
        with refuse_lack_of_memory():
            return run(config)
    except UsageError as error:
        return _refuse(str(error))
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        return _refuse(
            f"{error.filename or 'the run folder'} cannot be written ({error.strerror}): "
            "make room and go on with --resume"
        )
    except KeyboardInterrupt:
        print("stopped before the run began", file=sys.stderr)
        return 130


def _refuse(sentence: str) -> int:
    print(f"error: {' '.join(sentence.split())}", file=sys.stderr)
    return 2


def _unraisable(unraisable: Any) -> None:
    # Where one write of a checkpoint fails, tensorstore goes on to report the others to the
    # event loop that the failure has closed, each with a traceback from a thread of its own.
    if str(unraisable.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    sys.unraisablehook = _unraisable
    sys.exit(main())
