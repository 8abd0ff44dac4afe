"""What a field of a group of options may be: its annotation and the values that fit it."""

import dataclasses
import types
import typing
from typing import Any, Literal

WORDS = "bool, int, float, str, a Literal of strings, or int, float, str or such a Literal or None"
"""Annotations of options, for a sentence."""


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, `int | None` or `Optional[int]`; else the annotation alone."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return typing.get_args(annotation)
    return (annotation,)


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of a field's type; a float may be a whole number."""
    return any(_fits(value, one) for one in alternatives(annotation))


def check_group(cls: type) -> None:
    """Refuses a dataclass that cannot be a group of options.

    Raises:
      ValueError: a field is annotated with what no option has, or its default does not fit; one
        sentence.
    """
    hints, defaults = typing.get_type_hints(cls), cls()
    for item in dataclasses.fields(cls):
        annotation, default = hints[item.name], getattr(defaults, item.name)
        if dataclasses.is_dataclass(annotation):
            check_group(typing.cast(type, annotation))
            continue
        one_of = alternatives(annotation)
        if not all(_is_option(one, alone=len(one_of) == 1) for one in one_of):
            raise ValueError(
                f"{cls.__name__}.{item.name} cannot be an option, because it is annotated "
                f"{annotation}: make it {WORDS}"
            )
        if not fits(default, annotation):
            raise ValueError(
                f"{cls.__name__}.{item.name} is annotated {annotation}, but its default is "
                f"{default!r}: make one like the other"
            )


def _fits(value: Any, annotation: Any) -> bool:
    if typing.get_origin(annotation) is Literal:
        return value in typing.get_args(annotation)
    return type(value) is annotation or (annotation is float and type(value) is int)


def _is_option(annotation: Any, alone: bool) -> bool:
    if typing.get_origin(annotation) is Literal:
        return all(isinstance(choice, str) for choice in typing.get_args(annotation))
    # A switch is there or not, and takes no value.
    return annotation in (int, float, str, bool if alone else types.NoneType)
