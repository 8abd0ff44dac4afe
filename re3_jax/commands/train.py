"""`python -m re3_jax.commands.train --env TASK ...`: one run from the command line."""

import errno
import os
import sys
from collections.abc import Sequence

from re3_jax.runs import machine
from re3_jax.runs.build import cpu_devices, part_of
from re3_jax.runs.errors import UsageError, in_one_sentence, refuse_lack_of_memory, refusing
from re3_jax.runs.options import parse
from re3_jax.runs.run import run
from re3_jax.runs.validate import sizes
from re3_jax.training import distributed

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (0, 2, 130 or 143)."""
    try:
        with refusing(ValueError):
            processes = distributed.start()
        config = parse(list(sys.argv[1:] if argv is None else argv))
        machine.use_cpu_devices(cpu_devices(part_of(config, processes)))
        machine.keep_compiled_programs()
        with refuse_lack_of_memory(f"--seeds, --evaluation.episodes, {sizes(config)}"):
            return run(config, processes)
    except distributed.FailedElsewhere:
        return 2
    except distributed.LostProcess as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        # An ordinary end would wait minutes for the process that is lost.
        sys.stdout.flush()
        os._exit(2)
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        raise UsageError(
            f"{error.filename or 'the run folder, or the file that the output goes to,'} cannot be "
            f"written ({error.strerror}): make room and continue with --resume"
        ) from None
    except KeyboardInterrupt:
        print("stopped before the run began", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
