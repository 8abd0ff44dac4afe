"""What callers give to a bonus, checked while it is traced: nothing is left in the program."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

AXES = {1: "batch", 2: "time, lane"}
"""Leading axes of a batch, and of a rollout."""

SCALARS = "terminated", "truncated", "state_number", "value", "next_is_known"
"""Fields with one number for each step."""

FIELDS = "action", "next_observation", *SCALARS
"""Fields beside the observations."""

MOST_AGENT_STEPS = np.iinfo(np.int32).max


def check_rows(given: Any, kind: type[Any], axes: int) -> None:
    """Refuses fields of other rows than the observations: flattened, they would be of other steps.

    Args:
      given: a `Step` of a rollout, or an `IntrinsicBatch`.
      kind: which of them it must be.
      axes: number of leading axes, of `AXES`.

    Raises:
      TypeError: it is something else, or a field is no array of numbers.
      ValueError: there is no step, or a field has another shape than the observations ask for; one
        sentence names it.
    """
    if not isinstance(given, kind):
        raise TypeError(
            f"what is to be rewarded is a {type(given).__name__}: give "
            f"{kind.__name__}(observation, ...)"
        )
    for name in ("observation", *FIELDS, "bonus_index"):
        _check_is_array(name, getattr(given, name, None))
    shape, names = jnp.shape(given.observation), AXES[axes]
    rows = shape[:axes]
    if len(shape) < axes or not math.prod(rows):
        raise ValueError(
            f"observations of shape {list(shape)} hold no step: give [{names}, ...], each axis at "
            "least 1 long"
        )
    for name in FIELDS:
        value = getattr(given, name, None)
        if value is None:
            continue
        found = jnp.shape(value)
        compared = found[:axes] if name == "action" else found
        if compared != (shape if name == "next_observation" else rows):
            more = {"action": ", ...", "next_observation": ", ...] as observation, [..."}
            raise ValueError(
                f"{name} is {list(found)}, but observation is {list(shape)}: give "
                f"[{names}{more.get(name, '')}] of the same steps"
            )


def _check_is_array(name: str, value: Any) -> None:
    is_array = isinstance(value, jax.Array | np.ndarray | np.generic)
    if value is not None and not is_array and not hasattr(value, "__jax_array__"):
        raise TypeError(
            f"{name} is a {type(value).__name__}: give one array of JAX or NumPy, the parts of "
            "a dict joined and a tensor through jax.dlpack.from_dlpack"
        )
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "OSUMm":
        raise TypeError(f"{name} is an array of {value.dtype}: give one of numbers or bools")


def check_minibatches(minibatches: Any, size: int) -> None:
    """Refuses what does not say which of `size` rows each update learns from, with a ValueError.

    The numbers themselves are seen where they are known and on this host; elsewhere, JAX takes the
    last row in place of one too large.
    """
    is_array = isinstance(minibatches, np.ndarray | jax.Array)
    is_whole = is_array and jnp.issubdtype(minibatches.dtype, jnp.integer)
    if not is_whole or minibatches.ndim != 2 or not minibatches.size:
        found = type(minibatches).__name__
        if is_array:
            found = f"{minibatches.dtype}{list(minibatches.shape)}"
        raise ValueError(
            f"minibatches are {found}: give whole numbers [update, minibatch], each axis at least "
            "1 long, the rows that each update learns from"
        )
    is_known = not isinstance(minibatches, jax.core.Tracer)
    if is_known and getattr(minibatches, "is_fully_addressable", True):
        # By NumPy: inside `jit`, even the minimum of a known array of JAX is a tracer.
        numbers = np.asarray(minibatches)
        low, high = int(numbers.min()), int(numbers.max())
        if low < 0 or high >= size:
            raise ValueError(
                f"minibatches name rows from {low} to {high}, but the batch has {size}: give rows "
                f"from 0 to {size - 1}"
            )


def check_agent_steps(agent_steps: Any) -> None:
    """Refuses what is not one whole number, such as a number for each row, with a ValueError."""
    is_number = isinstance(agent_steps, int | np.integer | np.ndarray | jax.Array)
    is_number = is_number and not isinstance(agent_steps, bool)
    dtype = getattr(agent_steps, "dtype", jnp.dtype(jnp.int32))
    if not is_number or jnp.shape(agent_steps) or not jnp.issubdtype(dtype, jnp.integer):
        kind = f"{dtype}{list(jnp.shape(agent_steps))}" if is_number else repr(agent_steps)
        raise ValueError(
            f"agent_steps is {kind}: give one whole number, the agent steps taken by all lanes "
            "together"
        )
    if not isinstance(agent_steps, jax.Array) and not 0 <= agent_steps <= MOST_AGENT_STEPS:
        raise ValueError(
            f"agent_steps is {agent_steps}: give a number from 0 to {MOST_AGENT_STEPS}, the "
            "largest of int32"
        )
