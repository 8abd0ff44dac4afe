"""Agents and bonuses as they are called in legends and tables."""

from re3_jax.runs.agents import AGENTS
from re3_jax.runs.bonuses import BONUSES, PLUS
from re3_jax.runs.registry import Registry


def of(agent: str, bonus: str) -> str:
    """An agent with its bonus, such as `RAD + RE3`; the agent alone without one."""
    return of_agent(agent) + of_bonus(bonus)


def of_agent(name: str) -> str:
    """An agent; one that nobody registered here is written in capitals."""
    return _label(AGENTS, name)


def of_bonus(name: str) -> str:
    """What a bonus, or a sum of several, adds to the agent's label."""
    parts = name.split(PLUS)
    rewarding = (part for part in parts if part not in BONUSES or BONUSES[part].rewards)
    return "".join(f" + {_label(BONUSES, part)}" for part in rewarding)


def _label(entries: Registry, name: str) -> str:
    label: str = entries[name].label if name in entries else ""
    return label or name.upper()
