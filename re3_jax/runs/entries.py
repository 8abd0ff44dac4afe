"""Checks of an agent, a bonus or a suite when it is registered, before anything uses it."""

import dataclasses
import inspect
import keyword
import typing
from collections.abc import Callable, Collection, Iterable
from typing import Any

from re3_jax.envs.base import Box, Discrete
from re3_jax.envs.names import unknown_name
from re3_jax.runs.agents import Agent
from re3_jax.runs.bonuses import Bonus
from re3_jax.runs.config import Entry, RunConfig, config_class, field_types
from re3_jax.runs.option_types import check_group
from re3_jax.runs.suites import SUITES, Suite

TUPLES = (
    *("networks", "of_images", "of_bonuses", "options"),
    *("groups", "inherits", "unused", "of_minibatch"),
)
"""Attributes with several names, where a string would be taken for its letters."""

OF_GROUP = "networks", "of_images", "of_bonuses", "options", "first_update", "span", "sequence"
"""Attributes of agents, and of their own forms of bonuses, that name options of their group."""

DOTTED = "inherits", "unused", "of_minibatch", "neighbours", "search_size", "rank", "values"
"""Attributes of bonuses that name options of any group."""

SPELLED = "give GROUP.NAME, such as re3.latent_dim"
"""How options of any group are named."""


def check(entry: Entry) -> None:
    """Refuses an entry that could not be built, or would break the options of other runs.

    Raises:
      ValueError: one sentence with the remedy.
    """
    _check_tuples(entry, entry.name)
    needs_one = isinstance(entry, Agent) or (isinstance(entry, Suite) and entry.host is not None)
    if needs_one or entry.config is not None:
        _check_config(entry)
    if isinstance(entry, Agent):
        _check_agent(entry)
    elif isinstance(entry, Bonus):
        _check_bonus(entry)
    elif isinstance(entry, Suite):
        _check_suite(entry)


def _check_config(entry: Entry) -> None:
    config = entry.config
    if not (isinstance(config, type) and dataclasses.is_dataclass(config)):
        raise ValueError(
            f"the config of {entry.name} is no dataclass: give a class that is decorated with "
            "@dataclass(frozen=True)"
        )
    check_group(config)
    group = entry.group
    if group is None:
        raise ValueError(
            f"{entry.name} has a config without a group: name it, as in groups=('{entry.name}',)"
        )
    if not group.isidentifier() or keyword.iskeyword(group):
        raise ValueError(
            f"the group '{group}' of {entry.name} is no name of a field in Python: choose another"
        )
    taken = typing.get_type_hints(config_class()).get(group)
    # Of the class itself, such as its properties.
    is_own = taken is None and hasattr(RunConfig, group)
    if is_own or (taken is not None and taken is not config):
        raise ValueError(f"the group {group} of {entry.name} is another's: choose another name")


def _check_agent(agent: Agent) -> None:
    _check_takes(agent.name, "make", agent.make, "its options", "task", "bonus")
    kinds = typing.get_args(agent.actions) or (agent.actions,)
    if not all(kind in (Box, Discrete) for kind in kinds):
        raise ValueError(
            f"actions of {agent.name} is {agent.actions!r}: give the class Box or "
            "Discrete, or Box | Discrete"
        )
    types, options = field_types(agent.config), _options(agent)
    if missing := [f"{name}: int" for name in agent.sizes if types.get(name) is not int]:
        raise ValueError(
            f"{agent.config.__name__} of {agent.name} lacks {' and '.join(missing)}, which an "
            f"agent with on_policy={agent.on_policy} has: add what is missing"
        )
    for attribute in OF_GROUP:
        _check_names(agent.name, attribute, _names(agent, attribute), types)
    with_other = [*agent.with_other, *(other for other, _ in agent.with_other.values())]
    _check_names(agent.name, "with_other", with_other, types)
    for bonus, own in agent.bonuses.items():
        whose = f"{bonus} of {agent.name}"
        _check_tuples(own, whose)
        for attribute in (*OF_GROUP, "neighbours"):
            _check_names(whose, attribute, _names(own, attribute), types)
        _check_names(whose, "unused", own.unused, options, SPELLED)


def _check_bonus(bonus: Bonus) -> None:
    _check_takes(bonus.name, "make", bonus.make, "run's options", "options of RE3")
    kinds, options = typing.get_type_hints(config_class()), _options(bonus)
    for group in bonus.groups[bonus.config is not None :]:
        if not dataclasses.is_dataclass(kinds.get(group)):
            raise ValueError(
                f"the group '{group}' of {bonus.name} has no options: give the bonus a config, a "
                "frozen dataclass that becomes its first group, or name a group that there is, "
                "such as re3"
            )
    for attribute in DOTTED:
        _check_names(bonus.name, attribute, _names(bonus, attribute), options, SPELLED)


def _check_suite(suite: Suite) -> None:
    _check_takes(suite.name, "preset", suite.preset, "task id", "preset", "agent")
    others = {other.group for other in SUITES.values() if other.name != suite.name}
    if suite.group is not None and suite.group in others:
        raise ValueError(
            f"the group {suite.group} of {suite.name} is another suite's: choose another name"
        )


def _options(entry: Entry) -> dict[str, Any]:
    """All options, dotted, with those that the entry brings, and their annotations."""
    own = field_types(entry.config, f"{entry.group}.") if entry.config is not None else {}
    return field_types(config_class()) | own


def _names(of: Any, attribute: str) -> Iterable[str]:
    """The options that an attribute names: one, several, or none."""
    value = getattr(of, attribute, None)
    return (value,) if isinstance(value, str) else value or ()


def _check_names(
    whose: str,
    attribute: str,
    names: Iterable[str],
    known: Collection[str],
    where: str | None = None,
) -> None:
    for name in names:
        if name not in known:
            raise unknown_name(f"option in {attribute} of {whose}", name, known, where)


def _check_tuples(of: Any, whose: str) -> None:
    for attribute in TUPLES:
        if isinstance(value := getattr(of, attribute, ()), str):
            raise ValueError(
                f"{attribute} of {whose} is the string '{value}': make it a tuple, as in "
                f"{attribute}=('{value}',)"
            )


def _check_takes(whose: str, what: str, function: Callable[..., Any], *arguments: str) -> None:
    try:
        inspect.signature(function).bind(*arguments)
    except ValueError:
        # Some functions written in C have no signature.
        return
    except TypeError:
        raise ValueError(
            f"{what} of {whose} cannot be called with {len(arguments)} arguments: let it take "
            f"({', '.join(arguments)})"
        ) from None
