"""Registries of what a run is built from, by name: `agents`, `bonuses` and `suites`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from re3_jax.runs.option_types import check_group

Values = Mapping[str, Any]
"""A RunConfig by dotted field names."""

Entry = TypeVar("Entry", bound=Any)


class Registry(dict[str, Entry]):
    """An entry's `name` -> entry, in the order in which help lists them."""

    def __init__(self, kind: str, *entries: Entry):
        """`kind` is what an entry is called in a sentence; plugins register more `entries`."""
        super().__init__((entry.name, entry) for entry in entries)
        self._kind = kind

    def register(self, entry: Entry) -> None:
        """Adds an entry; a ValueError if its name is taken or its options cannot be a group."""
        if entry.name in self:
            raise ValueError(f"there is {self._kind} {entry.name} already: choose another name")
        if "+" in entry.name:
            raise ValueError(f"{entry.name} has a +, which adds bonuses: choose another name")
        config = getattr(entry, "config", None)
        if isinstance(config, type) and dataclasses.is_dataclass(config):
            # The module of the configuration imports the registries.
            from re3_jax.runs.config import check_group_of

            check_group(config)
            check_group_of(entry)
        self[entry.name] = entry
