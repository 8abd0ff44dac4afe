"""Images with the batch as their last axis, put so before anything reads them.

Reason: jaxlib 0.10.2 fuses the transposition into what follows on a CPU. The patches of a
convolution then read images byte by byte, each from as far away as one image is long: a third of
the forward pass over MiniGrid's views (`benchmarks/results/minigrid_trunk.json`). What leaves a
loop is not fused.

Remove when: `benchmarks.minigrid_trunk` shows `x.transpose(3, 1, 2, 0)` as fast.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Num

from re3_jax.cpu.branches import of_platform


# Outside `jit`, the loop, made anew by each call, would be compiled by each call.
@partial(jax.jit, inline=True)
def batch_last(
    images: Num[Array, "batch height width channels"],
) -> Float[Array, "channels height width batch"]:
    """The images as float32, the batch last."""

    def row_by_row(images):
        rows = lax.map(lambda row: row.T.astype(jnp.float32), images.swapaxes(0, 1))
        return rows.swapaxes(0, 1)

    def at_once(images):
        return images.transpose(3, 1, 2, 0).astype(jnp.float32)

    return of_platform(images, cpu=row_by_row, default=at_once)
