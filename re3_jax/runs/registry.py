"""Registries of what a run is built from, by name: `agents`, `bonuses` and `suites`."""

from collections.abc import Mapping
from typing import Any, TypeVar

Values = Mapping[str, Any]
"""A RunConfig by dotted field names."""

Entry = TypeVar("Entry", bound=Any)


class Registry(dict[str, Entry]):
    """An entry's `name` -> entry, in the order in which help lists them."""

    def __init__(self, kind: str, of: type[Entry], *entries: Entry):
        """`kind` is what an entry, `of` a class, is called in a sentence; plugins add more."""
        super().__init__((entry.name, entry) for entry in entries)
        self._kind, self._of = kind, of

    def register(self, entry: Entry) -> None:
        """Adds an entry.

        Raises:
          ValueError: its name is taken, or `entries.check` refuses it; one sentence.
        """
        if not isinstance(entry, self._of):
            given, wanted = type(entry).__name__, self._of.__name__
            raise ValueError(
                f"a value of type {given} cannot be registered as {self._kind}: give "
                f"{wanted}(name=..., ...), as in docs/extending.md"
            )
        if entry.name in self:
            raise ValueError(f"there is {self._kind} {entry.name} already: choose another name")
        if "+" in entry.name:
            raise ValueError(f"{entry.name} has a +, which adds bonuses: choose another name")
        # The modules whose entries it checks import this one.
        from re3_jax.runs import entries

        entries.check(entry)
        self[entry.name] = entry
