"""Building blocks of presets: tables of values by dotted field names of a `RunConfig`."""

from functools import reduce
from operator import or_
from typing import Any

from re3_jax.intrinsic.network_training import NetworkConfig
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.config import RunConfig, unflatten

Values = dict[str, Any]

WITH_NETWORKS = tuple(
    bonus.groups[0]
    for bonus in BONUSES.values()
    if bonus.config is not None and issubclass(bonus.config, NetworkConfig)
)
"""Bonuses whose own group of options has networks: an encoder and layers of `hidden_dim`."""


def options(*groups: str, **values: Any) -> Values:
    """Gives each of the groups the same values: `group.name` -> value."""
    return {f"{group}.{name}": value for group in groups for name, value in values.items()}


def run(*tables: Values) -> RunConfig:
    """The run of these tables; later ones override earlier ones and the dataclasses' defaults.

    Raises:
      KeyError or TypeError: a name is not that of a field, or a value is not of its type.
      ValueError: a value is out of range.
    """
    return unflatten(reduce(or_, tables))


TINY: Values = {
    "seeds": 2,
    "steps": 2_000,
    "loggers": "none",
    "video": False,
    **options(*WITH_NETWORKS, "learned", hidden_dim=32),
    **options("evaluation", every_env_frames=1_000, episodes=2),
}
"""What `debug`, the same program at a size for tests and first tries, has in every suite."""
