"""What presets are made of: tables of values by dotted names of the fields of a `RunConfig`.

A preset is a few tables, later ones over earlier ones; what none of them has is as the dataclass
of its group has it.
"""

from typing import Any

from experiments.config import RunConfig, unflatten

Values = dict[str, Any]


def options(*groups: str, **values: Any) -> Values:
    """The same values of fields of each of the groups."""
    return {f"{group}.{name}": value for group in groups for name, value in values.items()}


def run(*tables: Values) -> RunConfig:
    """The run of these tables, the last of which counts where several have a value.

    Raises:
      KeyError or TypeError: a name is not that of a field, or a value is not of its type.
      ValueError: a value is out of range.
    """
    merged: Values = {}
    for table in tables:
        merged |= table
    return unflatten(merged)


TINY: Values = {
    "seeds": 2,
    "steps": 2_000,
    "tensorboard": False,
    "video": False,
    **options("rnd", "icm", "learned", hidden_dim=32),
    **options("evaluation", every_env_frames=1_000, episodes=2),
}
"""What `debug`, the same program with small numbers for tests and first tries, has anywhere."""
