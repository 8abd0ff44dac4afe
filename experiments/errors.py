"""What ends a command with one sentence and exit code 2."""

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence


class UsageError(Exception):
    """What was asked for cannot be done; the message is one sentence with the remedy."""


def in_one_sentence(main: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """A command: words -> exit code, which is 2 after a `UsageError`, said in one line.

    What is raised is not told once more, in many lines, by the loggers of libraries.
    """

    @functools.wraps(main)
    def command(argv: Sequence[str] | None = None) -> int:
        for chatty in ("absl", "asyncio"):
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        try:
            return main(argv)
        except UsageError as error:
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
            return 2

    return command


@contextlib.contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Makes errors of these kinds, whose sentences are for the user, a `UsageError`."""
    try:
        yield
    except kinds as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def refuse_lack_of_memory(options: str) -> Iterator[None]:
    """Makes the error of a device without enough memory a `UsageError`: lower `options`."""
    try:
        yield
    # The base of jax.errors.JaxRuntimeError: commands that need no JAX import this module too.
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UsageError(
            f"the device has too little memory for this run: lower {options}"
        ) from None
