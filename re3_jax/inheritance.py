"""Which fields of a state a fine-tuned run inherits: said beside the state, by a decorator.

The paper: "we initialize the parameters using the pre-trained parameters", and "we load the
running estimate of the standard deviation from pre-training phase" (Appendix, "Details on
DeepMind Control Suite Experiments"). That estimate is of distances in the space of one encoder,
so the encoder is inherited with it. Networks, encoders and running statistics are inherited;
optimisers, replays, latents, temperature, counters, environments and random streams start afresh.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type[Any])

_INHERITED: dict[type, tuple[str, ...]] = {}


def inherits(*fields: str) -> Callable[[Class], Class]:
    """Declares the fields of a NamedTuple that are inherited; all others start afresh.

    An inherited field that holds a declared state, or a dict or tuple of them, follows their own
    declarations; any other is inherited whole.
    """

    def declare(cls: Class) -> Class:
        assert set(fields) <= set(cls._fields), f"{cls.__name__} has not all of {fields}"
        _INHERITED[cls] = fields
        return cls

    return declare


def inherited_fields(state: Any) -> tuple[str, ...] | None:
    """The inherited fields of a state; None if its type does not declare any."""
    return _INHERITED.get(type(state))
