"""A fine-tuned run starts from another: what it takes over is said in `re3_jax.inheritance`."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from re3_jax.inheritance import inherited_fields
from re3_jax.intrinsic.base import ChainState
from re3_jax.intrinsic.sums import SumState
from re3_jax.training.train_state import TrainState


def inherited(state: TrainState) -> dict[str, Array]:
    """The leaves of a state that a fine-tuned run inherits, by their path: `agent/params/...`.

    Raises:
      TypeError: the state of the agent or the bonus does not declare what is inherited.
    """
    _check_declared(state)
    return {
        name_of(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if _is_inherited(state, path)
    }


def inherit(fresh: TrainState, source: Mapping[str, Array | np.ndarray]) -> TrainState:
    """`fresh` with all that it inherits taken from another run.

    Without a bonus there is none to inherit: the agent's networks alone are taken.

    Args:
      fresh: state at env frame 0, of one seed or with a leading axis of seeds.
      source: `inherited` of the other run's state, of the same seeds; what else it holds is
        left there.

    Raises:
      ValueError: something to be inherited is missing in `source` or has another shape there.
      TypeError: as `inherited`.
    """
    for name, leaf in inherited(fresh).items():
        if name not in source:
            raise ValueError(f"the run to start from has no {name}")
        found = source[name]
        if (found.shape, found.dtype) != (leaf.shape, leaf.dtype):
            raise ValueError(
                f"{name} is {leaf.dtype}{list(leaf.shape)} here and "
                f"{found.dtype}{list(found.shape)} in the run to start from"
            )
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: source[name_of(path)] if _is_inherited(fresh, path) else leaf, fresh
    )


def name_of(path: Any) -> str:
    """The path of a leaf as it is written: `agent/params/params/trunk/kernel_0`."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_inherited(state: Any, path: Any) -> bool:
    for key in path:
        if isinstance(state, dict):
            state = state[key.key]
            continue
        if type(state) is tuple:
            state = state[key.idx]
            continue
        fields = inherited_fields(state)
        if fields is None:
            return True
        if key.name not in fields:
            return False
        state = getattr(state, key.name)
    return True


def _check_declared(state: TrainState) -> None:
    """An agent or a bonus that declares nothing would hand on its optimiser and its replay."""
    for part in (state.agent, *_bonuses_in(state.intrinsic)):
        if jax.tree.leaves(part) and inherited_fields(part) is None:
            raise TypeError(
                f"{type(part).__name__} does not say what a fine-tuned run inherits: decorate it "
                "with re3_jax.inheritance.inherits"
            )


def _bonuses_in(state: Any) -> Iterator[Any]:
    """The states of the bonuses that are chained or added."""
    if isinstance(state, ChainState):
        yield from _bonuses_in(state.bonus)
    elif isinstance(state, SumState):
        for part in state.parts.values():
            yield from _bonuses_in(part)
    else:
        yield state
