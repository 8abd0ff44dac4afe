"""Checks of configuration fields: each raises a ValueError that says what is allowed.

Imports no JAX: worker processes of host environments validate their configuration too.
"""

import dataclasses
import math
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np

FLOAT32_MAX = float(np.finfo(np.float32).max)
"""Largest finite float32."""


def made_with(kind: type, config: Any, taker: str) -> None:
    """Options of this class, which `taker` needs: fields that another has in common mean others."""
    if not isinstance(config, kind):
        is_class = isinstance(config, type)
        given = f"the class {config.__name__}" if is_class else f"a {type(config).__name__}"
        raise ValueError(f"{taker} needs options made with {kind.__name__}(...), but got {given}")


def at_least(config: Any, minimum: int, *names: str) -> None:
    """Whole numbers of at least `minimum`."""
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"{name} must be a whole number, but it is {value!r}")
        if value < minimum:
            raise ValueError(f"{name} must be at least {minimum}, but it is {value}")


def positive(config: Any, *names: str) -> None:
    """Finite numbers above 0."""
    for name in names:
        value = _number(config, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a finite number above 0, but it is {value}")


def not_negative(config: Any, *names: str) -> None:
    """Finite numbers of at least 0."""
    not_below(config, 0, *names)


def not_below(config: Any, minimum: int, *names: str) -> None:
    """Finite numbers of at least `minimum`."""
    for name in names:
        value = _number(config, name)
        if not minimum <= value < math.inf:
            raise ValueError(
                f"{name} must be a finite number of at least {minimum}, but it is {value}"
            )


def share(config: Any, *names: str) -> None:
    """Numbers from 0 to 1."""
    for name in names:
        value = _number(config, name)
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be from 0 to 1, but it is {value}")


def positive_share(config: Any, *names: str) -> None:
    """Numbers above 0 and at most 1."""
    for name in names:
        value = _number(config, name)
        if not 0 < value <= 1:
            raise ValueError(f"{name} must be above 0 and at most 1, but it is {value}")


def _number(config: Any, name: str) -> Any:
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, but it is {value!r}")
    return value


def numbers(config: Any, *names: str) -> None:
    """Numbers, whatever they are."""
    for name in names:
        _number(config, name)


def switches(config: Any) -> None:
    """True or False in each field of a dataclass that is one of them by default."""
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if isinstance(item.default, bool) and not isinstance(value, bool | np.bool_):
            raise ValueError(f"{item.name} must be True or False, but it is {value!r}")


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of `number` that is at most `most`."""
    return max(n for n in range(1, min(number, most) + 1) if number % n == 0)


def evenly_divided(config: Any, size: str, shares: str) -> None:
    """A number of elements that so many devices can share evenly."""
    number, among = getattr(config, size), getattr(config, shares)
    if number % among:
        raise ValueError(
            f"a {size} of {number} cannot be divided evenly: set {shares} to "
            f"{math.gcd(number, among)} instead of {among}"
        )


def one_of(config: Any, **choices: Any) -> None:
    """Fields that take one value of a `Literal`."""
    for name, literal in choices.items():
        value, allowed = getattr(config, name), get_args(literal)
        if value not in allowed:
            raise ValueError(f"unknown {name} {value!r}: choose one of {', '.join(allowed)}")
