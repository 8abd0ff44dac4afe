"""How options are spelled on the command line and in sentences."""

import re
from collections.abc import Iterable
from typing import Any

from re3_jax.runs.agents import AGENTS, Agent
from re3_jax.runs.bonuses import Bonus
from re3_jax.runs.registry import Values


def option_name(dotted: str) -> str:
    """The command-line spelling of a field: `a2c.num_envs` -> `--a2c.num-envs`."""
    group, dot, leaf = dotted.rpartition(".")
    spelled = "bonus" if group == "pretrained" else group
    return f"--{spelled}{dot}{leaf}".replace("_", "-")


def option_with(dotted: str, value: Any) -> str:
    """The words that give a field this value: `--a2c.num-envs 4`, `--evaluation.no-greedy`."""
    if isinstance(value, bool):
        group, dot, leaf = dotted.rpartition(".")
        return option_name(dotted if value else f"{group}{dot}no_{leaf}")
    return f"{option_name(dotted)} {value}"


def with_options(sentence: str, names: Iterable[str]) -> str:
    """A sentence of the library with these fields, dotted, replaced by their options.

    If two groups have a field of the same name, the first group's option is used. A switch has no
    value: "set greedy to false" becomes "set --evaluation.no-greedy".
    """
    dotted: dict[str, str] = {}
    for name in names:
        dotted.setdefault(name.rpartition(".")[2], name)

    def option(found: re.Match[str]) -> str:
        name, value = found.groups()
        return option_with(dotted[name], value == "true") if value else option_name(dotted[name])

    fields = rf"(?<![\w.-])({'|'.join(dotted)})\b(?: to (false|true)\b)?"
    return re.sub(fields, option, sentence)


def with_ring_of(agent: Agent, sentence: str) -> str:
    """A sentence that names, for the ring's size, the option that has an effect with the agent."""
    return sentence.replace(option_name("re3.ring_size"), option_name(agent.ring))


def neighbours_option(values: Values, bonus: Bonus) -> str | None:
    """The option, dotted, that says where a bonus searches neighbours; None if it has none."""
    agent = AGENTS[values["agent"]]
    own = agent.bonuses.get(bonus.name)
    if own is not None:
        return own.neighbours and f"{agent.group}.{own.neighbours}"
    return bonus.neighbours
