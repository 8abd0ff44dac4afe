"""The types of arrays inside `shard_map`: over which axes of the mesh they vary."""

from typing import TypeVar

import jax
from jax import lax

Tree = TypeVar("Tree")


def varying_like(tree: Tree, *others: object) -> Tree:
    """Returns `tree`, its leaves typed as varying over the mesh axes of all its and others' leaves.

    Inside shard_map a loop requires this type of its initial carry. Elsewhere nothing changes.
    """
    axes = frozenset[str]().union(*map(_axes, jax.tree.leaves((tree, others))))

    def varying(leaf):
        missing = tuple(sorted(axes - _axes(leaf)))
        return lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(varying, tree)


def _axes(leaf) -> frozenset[str]:
    kind = jax.typeof(leaf)
    # The name differs between versions of JAX.
    manual = getattr(kind, "manual_axis_type", None)
    return frozenset(manual.varying if manual is not None else getattr(kind, "vma", ()))
