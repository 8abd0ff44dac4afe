"""Options given to `re3_jax.train` -> the words of the command line that give them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from re3_jax.runs import loggers, run_folder
from re3_jax.runs.errors import UsageError
from re3_jax.runs.option_names import option_with


def words_of(options: Mapping[str, Any]) -> list[str]:
    """The words of the command line that give these options.

    Args:
      options: value by the option's name in a configuration; a group of options is a mapping from
        their names in it. None leaves an option to the preset, but in a group it is a value.

    Raises:
      UsageError: a group is given as its dataclass, which would replace all that the preset sets.
    """
    given: dict[str, Any] = {}
    for name, value in options.items():
        if dataclasses.is_dataclass(value):
            raise UsageError(
                f"{name} is a {type(value).__name__}: give a dict of the options to change, such "
                f"as {name}={{'{dataclasses.fields(value)[0].name}': ...}}"
            )
        if isinstance(value, Mapping):
            given |= {f"{name}.{leaf}": one for leaf, one in value.items()}
        elif value is not None:
            given[name] = value
    return [option_with(name, value).replace(" ", "=", 1) for name, value in given.items()]


def check(bonus: str | None, out: Path | None, options: Mapping[str, Any]) -> None:
    """Refuses what only the command line has, what needs a folder, and a folder with a run."""
    if bonus is None:
        raise UsageError("bonus is None: give 'none' for no bonus, or leave it out for re3")
    if "resume" in options:
        raise UsageError("resume has no effect here: use re3_jax.load(folder).train(steps=...)")
    if "help" in options:
        raise UsageError("help is of the command line: print re3_jax.train.__doc__ instead")
    if options.get("video") and out is None:
        raise UsageError("video has no effect without out: leave it out and use Run.video")
    if options.get("loggers", loggers.NONE) != loggers.NONE and out is None:
        raise UsageError("loggers has no effect without out: leave it out, or give a folder as out")
    if out is not None and (out / run_folder.CONFIG).exists():
        raise UsageError(
            f"out {out} already holds a run: choose another, go on with it there by "
            f"python -m re3_jax.commands.train --resume --out {out}, or load it with "
            "re3_jax.load, train it further and save it elsewhere"
        )
