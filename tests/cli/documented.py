"""What the options of a documented command become."""

import shlex

from re3_jax.runs.config import RunConfig
from re3_jax.runs.options import parse


def variables(command: str) -> dict[str, str]:
    """Those of make that a command sets."""
    _, _, *words = shlex.split(command)
    return dict(word.split("=", 1) for word in words)


def config_of(command: str) -> RunConfig:
    """That of `make run` or `make profile`.

    Raises:
      UsageError: an option is unknown or has no effect.
    """
    values = variables(command)
    more = shlex.split(values.pop("ARGS", ""))
    named = [word for name, value in values.items() for word in (f"--{name.lower()}", value)]
    return parse(named + more)
