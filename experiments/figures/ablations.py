"""Figures of ablations: rows that change one option each, and a panel for each kind of option."""

from collections.abc import Mapping
from typing import NamedTuple

from experiments.figures import command
from re3_jax.runs import curves
from re3_jax.runs.curves import Curve


class Group(NamedTuple):
    """One panel: what its rows differ in, and value in words -> the options with this value."""

    title: str
    changes: Mapping[str, Mapping[str, str | bool]]


INITIALISATIONS: Mapping[str, Mapping[str, str | bool]] = {
    name: {"re3.encoder-init": name.lower()} for name in ("Xavier", "He", "orthogonal")
}

NORMALISATIONS: Mapping[str, Mapping[str, str | bool]] = {
    "exact": {"re3.normalize": "running_std"},
    "none": {"re3.normalize": "none"},
}

Cell = tuple[str, str]
"""Short name of a group and a value in words."""


def options(groups: Mapping[str, Group]) -> command.Options:
    """The option that chooses among a figure's groups."""
    return {"--groups": command.some_of(groups)}


def cells(words: command.Words, groups: Mapping[str, Group]) -> dict[Cell, dict[str, str | bool]]:
    """The changed options of every row of the chosen groups."""
    return {
        (name, value): dict(change)
        for name in words.groups
        for value, change in groups[name].changes.items()
    }


def draw(
    words: command.Words,
    groups: Mapping[str, Group],
    name: str,
    default: Curve | None,
    found: Mapping[Cell, Curve],
    missing: tuple[int, int],
) -> command.Lines:
    """Writes curves.png, and table.csv, which compares each row with the default.

    Args:
      words: values of `--groups` and `--out`.
      groups: short name -> group.
      name: what the table calls the default.
      default: the curve with no option changed; None if no run of it is finished.
      found: the curves of the rows.
      missing: how many runs are not there, and of how many.
    """
    first = [default] if default else []
    drawn = {
        group: [curve for (of, _), curve in found.items() if of == group] for group in words.groups
    }
    panels = {groups[group].title: first + drawn[group] for group in drawn if first or drawn[group]}
    picture = curves.draw_panels(panels, (4.4, 3.8), across=4)
    curves.note_missing(picture, *missing)
    picture.savefig(words.out / "curves.png")
    pairs = [(curve, None) for curve in first] + [(curve, default) for curve in found.values()]
    curves.write_table(
        [curve for curve, _ in pairs],
        words.out / "table.csv",
        group=[""] * len(first) + [group for group, _ in found],
        **curves.better_than(name, pairs),
    )
    yield words.out / "curves.png"
