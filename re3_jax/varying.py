"""The types of arrays inside `shard_map`: over which axes of the mesh they vary."""

from collections.abc import Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Shaped

Tree = TypeVar("Tree")


def varying_like(
    constant: Shaped[Array, "..."], others: Sequence[Shaped[Array, "..."]]
) -> Shaped[Array, "..."]:
    """Returns `constant`, typed as varying over the mesh axes of `others`.

    Inside shard_map a loop requires this type of its initial carry. A select between two equal
    values takes its type from the condition in every version of JAX, and XLA removes it.
    """
    condition = sum(jnp.ravel(other)[0].astype(jnp.float32) for other in others) > 0
    return jnp.where(condition, constant, constant)


def carry_like(carry: Tree, *others: object) -> Tree:
    """Returns `carry`, whose leaves vary over the mesh axes of all leaves of it and of `others`.

    For the carry of a loop that mixes them. Outside shard_map nothing changes.
    """
    axes = frozenset[str]().union(*map(_axes, jax.tree.leaves((carry, others))))

    def varying(leaf):
        missing = tuple(sorted(axes - _axes(leaf)))
        return lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(varying, carry)


def _axes(leaf) -> frozenset[str]:
    kind = jax.typeof(leaf)
    # The name differs between versions of JAX.
    manual = getattr(kind, "manual_axis_type", None)
    return frozenset(manual.varying if manual is not None else getattr(kind, "vma", ()))
