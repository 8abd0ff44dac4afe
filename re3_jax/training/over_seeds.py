"""A function of one seed -> the function of all: `vmap` within a device, `shard_map` over them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SEED_AXIS = "seed"


def with_sharding(shapes: Any, sharding: NamedSharding) -> Any:
    """Shapes and dtypes of a state, to restore it into without ever allocating another."""
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), shapes
    )


def map_over_seeds(function: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """Maps `function` over the leading axis of all its arguments and results.

    A device that holds a single seed runs `function` itself: what `vmap` would batch over one
    element (a convolution with its weights above all) is compiled as it stands.
    """

    def mapped(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        # Reshapes, where indexing would copy: a replay may be half of the memory.
        result = function(*jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[1:]), arguments))
        return jax.tree.map(lambda leaf: jnp.reshape(leaf, (1, *jnp.shape(leaf))), result)

    if mesh.size == 1:
        return mapped
    over_seeds = PartitionSpec(SEED_AXIS)
    return jax.shard_map(
        mapped, mesh=mesh, in_specs=over_seeds, out_specs=over_seeds, check_vma=False
    )
