"""The types of arrays inside `shard_map`: over which axes of the mesh they vary."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Shaped


def varying_like(
    constant: Shaped[Array, "..."], others: Sequence[Shaped[Array, "..."]]
) -> Shaped[Array, "..."]:
    """Returns `constant`, typed as varying over the mesh axes of `others`.

    Inside shard_map a loop requires this type of its initial carry. A select between two equal
    values takes its type from the condition in every version of JAX, and XLA removes it.
    """
    condition = sum(jnp.ravel(other)[0].astype(jnp.float32) for other in others) > 0
    return jnp.where(condition, constant, constant)
