"""Stage 1 of a search as one kernel of a CUDA device, written in Pallas for its Triton backend.

XLA writes each product of a block with a tile to memory and reads it again for the maxima. The
kernel keeps a product in registers: only the scores of the groups go to memory.

Search programs for CUDA use it where JAX's CUDA plugin is installed and Triton knows the device
(compute capability 8.0 or more). The environment variable RE3_JAX_FUSED_KNN=0 turns it off; then
the search is that of every other platform.
"""

import functools
import importlib.util
import os

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

SWITCH = "RE3_JAX_FUSED_KNN"

# Of the tiles that ptxas fits into registers without spilling, the one of which an H100 holds three
# on a core: the sums of one tile hide the loads of another.
TILE_ROWS, TILE_QUERIES, TILE_DIMS = 128, 64, 16
WARPS, STAGES = 4, 3


@functools.cache
def is_wanted() -> bool:
    """Whether programs of this process that are lowered for CUDA use the kernel."""
    find, plugins = importlib.util.find_spec, ("jax_cuda12_plugin", "jax_cuda13_plugin")
    if os.environ.get(SWITCH) == "0" or not any(map(find, plugins)):
        return False
    if find("jax.experimental.pallas.triton") is None:
        return False
    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError:
        # No device is here, but one can be compiled for: `accelerators.targets` knows newer ones.
        return True
    return all(float(device.compute_capability) >= 8.0 for device in devices)


def score_groups(
    queries: Float[Array, "batch latent"],
    latents: Float[Array, "capacity latent"],
    norms: Float[Array, " capacity"],
    centre: Float[Array, " latent"],
    last_row: Int[Array, ""],
    *,
    group: int,
    num_groups: int,
    interpret: bool = False,
) -> Float[Array, "groups batch"]:
    """Maximum of 2 x.(y - c) - norm over the rows y of each group, for each query x.

    Products are of float32, without tensor cores.

    Args:
      queries: x, already relative to the centre.
      latents: the rows.
      norms: of each row minus the centre, squared; +inf for a row that does not count.
      centre: c.
      last_row: groups at or past it score -inf, and take next to no time.
      group: rows of a group, a power of two of at most TILE_ROWS.
      num_groups: groups that are scored; those past the capacity score -inf.
      interpret: whether to run on any platform, slowly, for tests.
    """
    # Importing Pallas takes half a second, which runs on other platforms do not wait for.
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (batch, dim), capacity = queries.shape, latents.shape[0]
    tile_groups, padded_dim = TILE_ROWS // group, -(-dim // TILE_DIMS) * TILE_DIMS

    def kernel(last_row, queries, latents, norms, centre, scores):
        tile, first = pl.program_id(0), pl.program_id(1) * TILE_ROWS
        query = tile * TILE_QUERIES + jnp.arange(TILE_QUERIES)
        row = first + jnp.arange(TILE_ROWS)
        is_query, is_row = query < batch, row < capacity

        def write(values):
            is_group = first // group + jnp.arange(tile_groups) < num_groups
            triton.store(scores, values, mask=is_group[:, None] & is_query)

        @pl.when(first < last_row[0])
        def _():
            def add_products(step, total):
                at = pl.ds(step * TILE_DIMS, TILE_DIMS)
                is_dim = step * TILE_DIMS + jnp.arange(TILE_DIMS) < dim

                def load(ref, is_line):
                    return triton.load(ref.at[:, at], mask=is_line[:, None] & is_dim, other=0.0)

                difference = load(latents, is_row) - triton.load(
                    centre.at[at], mask=is_dim, other=0.0
                )
                return total + lax.dot_general(
                    difference,
                    load(queries, is_query),
                    (((1,), (1,)), ((), ())),
                    precision=lax.Precision.HIGHEST,
                )

            zeros = jnp.zeros((TILE_ROWS, TILE_QUERIES), jnp.float32)
            product = lax.fori_loop(0, padded_dim // TILE_DIMS, add_products, zeros)
            norm = triton.load(norms, mask=is_row, other=jnp.inf)
            # The product with a row that is `latent_ring.FAR` may overflow.
            scored = jnp.where(norm[:, None] == jnp.inf, -jnp.inf, 2 * product - norm[:, None])
            write(jnp.max(scored.reshape(tile_groups, group, TILE_QUERIES), axis=1))

        @pl.when(first >= last_row[0])
        def _():
            write(jnp.full((tile_groups, TILE_QUERIES), -jnp.inf, jnp.float32))

    def scores_like(*arguments):
        # Inside shard_map the scores vary over the devices as any of the arguments do.
        zeros = jnp.zeros((num_groups, batch), jnp.float32)
        return sum(jnp.ravel(x)[0] for x in arguments) + zeros

    arguments = last_row.reshape(1), queries, latents, norms, centre
    return pl.pallas_call(
        kernel,
        # Neighbouring blocks take the same rows, so that these come from the cache.
        grid=(pl.cdiv(batch, TILE_QUERIES), pl.cdiv(num_groups, tile_groups)),
        in_specs=[
            pl.BlockSpec((1,), lambda tile, rows: (0,)),
            pl.BlockSpec((TILE_QUERIES, padded_dim), lambda tile, rows: (tile, 0)),
            pl.BlockSpec((TILE_ROWS, padded_dim), lambda tile, rows: (rows, 0)),
            pl.BlockSpec((TILE_ROWS,), lambda tile, rows: (rows,)),
            pl.BlockSpec((padded_dim,), lambda tile, rows: (0,)),
        ],
        out_specs=pl.BlockSpec((tile_groups, TILE_QUERIES), lambda tile, rows: (rows, tile)),
        out_shape=jax.eval_shape(scores_like, *arguments),
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=STAGES),
        interpret=interpret,
        name="score_groups",
        # `accelerators.cost` reads it: a compiled program does not say what a kernel computes.
        metadata={"operations_per_number": str(2 * group * dim)},
    )(*arguments)
