"""What ends a command with one sentence and exit code 2."""

import contextlib
from collections.abc import Iterator


class UsageError(Exception):
    """What was asked for cannot be done; the message is one sentence with the remedy."""


@contextlib.contextmanager
def refuse_lack_of_memory(
    options: str = (
        "--seeds, --evaluation.episodes, and --a2c.num-envs and --re3.ring-size or "
        "--sac.batch-size and --sac.replay-capacity (rainbow: the same of --rainbow)"
    ),
) -> Iterator[None]:
    """Makes the backend's error, when a device has too little memory, a `UsageError`.

    Args:
      options: what to lower.
    """
    try:
        yield
    # The base of jax.errors.JaxRuntimeError: commands that need no JAX import this module too.
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UsageError(
            f"the device has too little memory for this run: lower {options}"
        ) from None
