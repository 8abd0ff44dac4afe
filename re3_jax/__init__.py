"""State-entropy exploration with random encoders (RE3; Seo et al., ICML 2021) in JAX.

`re3_jax.train` trains a `re3_jax.Run`, `re3_jax.load` reads one from its folder, and what they
refuse is a `re3_jax.UsageError` (see `re3_jax.runs.interface`).

Parts for your own training loop:

- `re3_jax.intrinsic`: a module for each bonus, as `re3.from_config(config)`; `sum_of`, `chain` and
  the reward transforms.
- `re3_jax.knn`, `re3_jax.replay.latent_ring`, `re3_jax.state_entropy`: exact nearest neighbours
  in a ring of latents, and the entropy estimate from their distances.
- `re3_jax.random_encoder`, `re3_jax.initializers`, `re3_jax.running_stats`,
  `re3_jax.schedules`: the parts of the bonus.
- `re3_jax.envs.registry`, `re3_jax.agents`, `re3_jax.training`: tasks, agents and the loop.

`import re3_jax` imports none of them; `re3_jax.knn` and the others in `PARTS` then need no import
of their own.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re3_jax import compilation as compilation
    from re3_jax import initializers as initializers
    from re3_jax import intrinsic as intrinsic
    from re3_jax import knn as knn
    from re3_jax import random_encoder as random_encoder
    from re3_jax import running_stats as running_stats
    from re3_jax import schedules as schedules
    from re3_jax import state_entropy as state_entropy
    from re3_jax.runs.errors import UsageError as UsageError
    from re3_jax.runs.interface import Run as Run
    from re3_jax.runs.interface import load as load
    from re3_jax.runs.interface import train as train

__all__ = ["Run", "UsageError", "load", "train"]

PARTS = (
    *("compilation", "initializers", "intrinsic", "knn", "random_encoder", "running_stats"),
    *("schedules", "state_entropy"),
)
"""Modules that are imported when they are first used as an attribute of the package."""


def __getattr__(name: str) -> Any:
    # Only here: it imports JAX, and commands that check the installation must start without it.
    if name in PARTS:
        return import_module(f"re3_jax.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from re3_jax.runs import interface

    return getattr(interface, name)


def __dir__() -> list[str]:
    imported = (name for name, value in globals().items() if isinstance(value, ModuleType))
    of_python = (name for name in globals() if name.startswith("__"))
    return [*{*__all__, *PARTS, *imported, *of_python}]
