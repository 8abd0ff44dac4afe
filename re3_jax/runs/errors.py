"""Errors that end a command with one sentence and exit code 2."""

import argparse
import contextlib
import errno
import functools
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from re3_jax.envs.endless import EndlessEpisode
from re3_jax.envs.host.lost import LostWorkers
from re3_jax.runs import early_stop

UNUSABLE = (
    *(errno.EACCES, errno.EPERM, errno.ENAMETOOLONG),
    *(errno.ENOTDIR, errno.ELOOP, errno.EROFS),
)
"""Errors that a path from the command line may cause."""

FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
"""Errors of a disk that takes no more; those of a file that is open already have no name."""


class UsageError(ValueError):
    """The request cannot be carried out; the message is one sentence with the remedy."""


class Parser(argparse.ArgumentParser):
    """A parser of options whose errors are one sentence, without a table of all options."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parses the words, with `~` expanded where make or `=` kept the shell from it."""
        words = with_home(sys.argv[1:] if args is None else args)
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Raises a `UsageError` in place of argparse's exit."""
        raise UsageError(f"{message}; --help lists the options")


def with_home(words: Sequence[str]) -> list[str]:
    """Words with the user's folder for a leading `~`, also after the = of an option."""

    def expanded(word: str) -> str:
        option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        return option + equals + os.path.expanduser(value) if value.startswith("~") else word

    return [expanded(word) for word in words]


def in_one_sentence(main: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """Makes a command exit with code 2 and one printed line after an error with a remedy.

    After Ctrl-C it exits with 130, silently.

    The loggers of libraries do not print the error again.
    """

    @functools.wraps(main)
    def command(argv: Sequence[str] | None = None) -> int:
        early_stop.end()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                # The name of a folder may have letters that the terminal cannot show.
                stream.reconfigure(errors="replace")
        for chatty in ("absl", "asyncio"):
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        try:
            return main(argv)
        except (UsageError, LostWorkers, EndlessEpisode) as error:
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except BrokenPipeError:
            # The reader has gone, such as `head`; what is left would be flushed at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE
        except OSError as error:
            if error.errno in FULL:
                reason = f"nothing more can be written ({error.strerror})"
                print(f"error: {reason}: free some room, or give another path", file=sys.stderr)
            elif error.errno in UNUSABLE and error.filename is not None:
                reason = f"{error.filename} cannot be used ({error.strerror})"
                print(f"error: {reason}: give a path that can", file=sys.stderr)
            else:
                raise
            return 2

    return command


@contextlib.contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turns errors of these kinds, whose messages are written for users, into a `UsageError`."""
    try:
        yield
    except kinds as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def refuse_lack_of_memory(options: str) -> Iterator[None]:
    """Turns a device's out-of-memory error into a `UsageError`: lower `options`."""
    try:
        yield
    # The base class of jax.errors.JaxRuntimeError: commands without JAX import this module too.
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UsageError(
            f"the device has too little memory for this run: lower {options}"
        ) from None
