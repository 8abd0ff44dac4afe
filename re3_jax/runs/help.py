"""`--help`: the options of a run, with the values that it would have."""

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any, NoReturn

import tyro

from re3_jax.runs.config import RunConfig, field_types


def show(config: RunConfig, matters: Callable[[str], bool]) -> NoReturn:
    """Prints the options and exits.

    Groups in which no option matters to the run are left out, or five of six lines would be about
    other agents and bonuses.

    Args:
      config: the run.
      matters: whether an option, dotted, has an effect in the run.
    """
    groups = {name: getattr(config, name) for name, _ in _fields(config)}
    shown = {
        name: value
        for name, value in groups.items()
        if not dataclasses.is_dataclass(value)
        or any(matters(option) for option in field_types(type(value), f"{name}."))
    }
    fields: list[Any] = [(n, kind, shown[n]) for n, kind in _fields(config) if n in shown]
    made = dataclasses.make_dataclass("RunConfig", fields, frozen=True)
    _, _, attributes = inspect.cleandoc(RunConfig.__doc__ or "").partition("\n\n")
    made.__doc__ = (
        f"Options of {config.title()}, and their values.\n\n"
        "To see those of others, give --env, --agent or --bonus beside --help.\n\n" + attributes
    )
    tyro.cli(made, prog="python -m re3_jax.commands.train", args=["--help"])
    raise AssertionError("tyro exits after the help")


def _fields(config: RunConfig) -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(type(config), include_extras=True)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(config)]
