"""SHA-256 digests of states, row by row of their leading axis.

A digest of rows does not depend on how many devices or processes hold them.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.training.transfer import name_of


class LeafDigests(NamedTuple):
    """Digests of one array.

    Attributes:
      form: dtype and shape of a row, as text.
      rows: 32 bytes for each row of the leading axis; a scalar has one.
    """

    form: str
    rows: list[bytes]


def of_rows(state: Any) -> dict[str, LeafDigests]:
    """Digests of every leaf (typed PRNG keys included) by its path."""

    def of_leaf(leaf: Any) -> LeafDigests:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        array = np.ascontiguousarray(jax.device_get(leaf))
        rows = np.atleast_1d(array)[..., None].view(np.uint8)
        digests = [hashlib.sha256(row.data).digest() for row in rows]
        return LeafDigests(f"{array.dtype} {leaf.shape[1:]}", digests)

    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {name_of(path): of_leaf(leaf) for path, leaf in leaves}


def of_leaves(digests: Mapping[str, LeafDigests]) -> dict[str, str]:
    """One hexadecimal digest for each leaf."""
    return {name: _over(leaf.form.encode(), *leaf.rows) for name, leaf in digests.items()}


def of_seeds(state: Any) -> list[str]:
    """One hexadecimal digest for each seed, the leading axis of every leaf."""
    digests = of_rows(state)
    forms = [f"{name} {leaf.form}".encode() for name, leaf in digests.items()]
    seeds = zip(*(leaf.rows for leaf in digests.values()), strict=True)
    return [_over(*forms, *rows) for rows in seeds]


def _over(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
