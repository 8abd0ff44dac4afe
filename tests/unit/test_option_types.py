"""Which dataclasses are groups of options, and which values their fields take."""

from dataclasses import dataclass, field
from typing import Any, Literal, Optional, Union

import pytest

from re3_jax.runs.errors import UsageError
from re3_jax.runs.option_types import check_group, fits
from re3_jax.runs.options import checked

# As users still write them.
OPTIONAL: Any = Optional[int]  # noqa: UP045
EITHER: Any = Union[int, float]  # noqa: UP007


@dataclass(frozen=True)
class Inner:
    """A group in a group."""

    size: int = 3


@dataclass(frozen=True)
class Good:
    """Every kind of field that an option has."""

    switch: bool = False
    count: int = 1
    rate: float = 1
    name: str = "a"
    kind: Literal["a", "b"] = "a"
    limit: OPTIONAL = None
    bound: float | None = 0.5
    scale: int | float = 1
    inner: Inner = field(default_factory=Inner)


def test_a_group_of_every_kind_is_accepted():
    check_group(Good)


@pytest.mark.parametrize(
    "annotation", [tuple[int, ...], list[str], bool | None, dict, Literal[1, 2], Any]
)
def test_other_annotations_are_refused(annotation):
    @dataclass(frozen=True)
    class Bad:
        mine: annotation = None

    with pytest.raises(ValueError, match=r"Bad.mine cannot be an option, because .*: make it"):
        check_group(Bad)


def test_a_default_of_another_type_is_refused():
    @dataclass(frozen=True)
    class Bad:
        count: int = 1.5  # type: ignore[assignment]

    with pytest.raises(ValueError, match=r"Bad.count is annotated .*int.*, but its default is 1.5"):
        check_group(Bad)


@pytest.mark.parametrize(
    ("words", "annotation", "value"),
    [
        *((words, OPTIONAL, value) for words, value in (("None", None), ("4", 4))),
        *((words, EITHER, value) for words, value in (("4", 4), ("0.5", 0.5))),
        ("0.5", int | float | None, 0.5),
        ("None", int | str, "None"),
        ("4", int | str, 4),
    ],
)
def test_words_become_the_first_type_that_they_fit(words, annotation, value):
    made = checked("--mine", words, annotation)
    assert made == value and type(made) is type(value)
    assert fits(made, annotation)


@pytest.mark.parametrize(
    ("words", "annotation", "sentence"),
    [
        ("many", OPTIONAL, "takes a whole number .*, not 'many'"),
        ("many", EITHER, "takes a number .*, not 'many'"),
        ("c", Literal["a", "b"] | None, "choose from a, b"),
    ],
)
def test_words_of_another_type_are_refused(words, annotation, sentence):
    with pytest.raises(UsageError, match=sentence):
        checked("--mine", words, annotation)
