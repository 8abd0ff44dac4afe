"""rlax without distrax: TensorFlow Probability below that lags behind JAX; nothing here uses it."""

import sys
import types


def _module(name: str) -> types.ModuleType:
    """A module whose every attribute is there, for annotations to name."""
    module = types.ModuleType(name)
    module.__getattr__ = lambda _: object
    return module


for _name in ("distrax", "tensorflow_probability"):
    sys.modules.setdefault(_name, _module(_name))

import rlax  # noqa: E402

__all__ = ["rlax"]
