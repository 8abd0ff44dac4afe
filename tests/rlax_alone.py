"""Imports rlax without distrax, whose TensorFlow Probability lags behind JAX; no test uses it."""

import sys
import types


def _attribute(name: str) -> type:
    # Code that inspects all modules, as hypothesis does, must find no dunder names here.
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
