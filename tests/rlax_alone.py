"""rlax without distrax: TensorFlow Probability below that lags behind JAX; nothing here uses it."""

import sys
import types


def _attribute(name: str) -> type:
    # Whoever looks at all modules, as hypothesis does, finds none of a module's own names.
    if name.startswith("__"):
        raise AttributeError(name)
    return object


def _module(name: str) -> types.ModuleType:
    """A module that has every attribute that an annotation may name."""
    module = types.ModuleType(name)
    module.__getattr__ = _attribute
    return module


for _name in ("distrax", "tensorflow_probability"):
    sys.modules.setdefault(_name, _module(_name))

import rlax  # noqa: E402

__all__ = ["rlax"]
