"""Which seeds of a state still hold numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def finite_seeds(state: Any, seeds: int) -> list[bool]:
    """For each of `seeds`, the leading axis of every leaf, whether no float is NaN or infinite.

    A state without floats, such as that of an agent that learns nothing, is finite.
    """
    floats = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    arrays = map(np.asarray, jax.device_get(floats))
    per_leaf = [np.ones(seeds, bool)]
    per_leaf += [np.isfinite(array).all(axis=tuple(range(1, array.ndim))) for array in arrays]
    return np.all(per_leaf, axis=0).tolist()
