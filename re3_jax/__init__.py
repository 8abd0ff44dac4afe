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

`import re3_jax` imports none of them.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re3_jax.runs.errors import UsageError as UsageError
    from re3_jax.runs.interface import Run as Run
    from re3_jax.runs.interface import load as load
    from re3_jax.runs.interface import train as train

__all__ = ["Run", "UsageError", "load", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Only here: it imports JAX, and commands that check the installation must start without it.
    from re3_jax.runs import interface

    return getattr(interface, name)


def __dir__() -> list[str]:
    imported = (name for name, value in globals().items() if isinstance(value, ModuleType))
    return [*__all__, *imported, *(name for name in globals() if name.startswith("__"))]
