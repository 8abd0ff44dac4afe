"""Stage 1 of a search: scores groups of rows by matrix products and selects the best groups."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from re3_jax.knn import kernel
from re3_jax.knn.inputs import Rows, gap_between, valid_in
from re3_jax.knn.plan import Plan
from re3_jax.varying import varying_like


class Candidates(NamedTuple):
    """The rows of each query's best groups.

    Attributes:
      rows: row numbers.
      counted: False where the tail repeats a row of another group, and past the capacity.
      best_unseen: the best score of all other groups; None if there are no others.
    """

    rows: Int[Array, "batch candidates"]
    counted: Bool[Array, "batch candidates"]
    best_unseen: Float[Array, " batch"] | None


def score_groups(
    queries: Float[Array, "batch latent"],
    rows: Rows,
    last_row: Int[Array, ""],
    plan: Plan,
    centre: Float[Array, " latent"] | None,
    scalars: Float[Array, " batch"] | None = None,
) -> Float[Array, "groups batch"]:
    """Maximum of 2 x.y - |y|^2 over the rows y of each group, for each query x.

    The score equals |x|^2 - |x - y|^2: the larger the score, the nearer the row. Groups at or past
    `last_row` may score -inf. With a `centre`, x and y are differences from it; `queries` are
    differences already. With `scalars` of the queries, |x - y| is the larger of itself and the gap
    between the scalars.
    """
    doubled = 2 * queries

    def moved(start, size: int, counts: Bool[Array, " size"] | bool = True):
        """Rows relative to the centre, and their squared norms."""
        latents = lax.dynamic_slice_in_dim(rows.latents, start, size)
        if centre is None:
            norms = lax.dynamic_slice_in_dim(rows.squared_norms, start, size)
        else:
            latents = latents - centre
            norms = sum_of_squares(latents)
        # A row that holds no latent scores -inf, so it is never preferred to one that does.
        return latents, jnp.where(valid_in(rows, start, size) & counts, norms, jnp.inf)

    if plan.fused:
        origin = jnp.zeros_like(queries[0]) if centre is None else centre
        _, norms = moved(0, plan.capacity)
        return kernel.score_groups(
            queries, rows.latents, norms, origin, last_row,
            group=plan.group, num_groups=plan.num_groups,
        )  # fmt: skip

    def score(start, size: int, counts: Bool[Array, " size"] | bool = True):
        latents, norms = moved(start, size, counts)
        product = lax.dot_general(
            latents, doubled, (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST
        )
        # The product with a row that is `latent_ring.FAR` may overflow.
        scores = jnp.where(norms[:, None] == jnp.inf, -jnp.inf, product - norms[:, None])
        if scalars is not None and rows.scalars is not None and rows.scale is not None:
            beside = lax.dynamic_slice_in_dim(rows.scalars, start, size)
            gap = gap_between(beside[:, None], scalars, rows.scale)
            scores = jnp.minimum(scores, sum_of_squares(queries) - gap * gap)
        return jnp.max(scores.reshape(-1, plan.group, queries.shape[0]), axis=1)

    def whole():
        return score(0, plan.main_rows)

    def blocks():
        def body(i, scores):
            # The last block may overlap the one before it: it writes the same scores again.
            start = jnp.minimum(i * plan.block, plan.main_rows - plan.block)
            new = score(start, plan.block)
            return lax.dynamic_update_slice_in_dim(scores, new, start // plan.group, 0)

        shape = plan.main_rows // plan.group, queries.shape[0]
        empty = jnp.full(shape, -jnp.inf, jnp.float32)
        empty = varying_like(empty, queries, rows, last_row)
        written = jnp.minimum(last_row, plan.main_rows)
        return lax.fori_loop(0, -(-written // plan.block), body, empty)

    if plan.fits_cache and plan.block == plan.main_rows:
        scores = whole()
    elif centre is not None or not plan.fits_cache:
        # Differences from a centre of the whole ring would be a copy of it.
        scores = blocks()
    else:
        scores = lax.cond(last_row > plan.main_rows // 2, whole, blocks)
    if plan.tail == 0:
        return scores
    start = plan.capacity - plan.tail
    is_new = jnp.arange(start, plan.capacity) >= plan.main_rows
    return jnp.concatenate([scores, score(start, plan.tail, is_new)])


def best_groups(scores: Float[Array, "groups batch"], count: int, plan: Plan) -> Candidates:
    """The rows of the `count` groups with the best scores, for each query."""
    queries = jnp.arange(scores.shape[1])[:, None]
    # The score of one group more bounds the scores of all groups that are left out.
    wanted = min(count + 1, plan.num_groups)
    if plan.bundle == 1:
        best, group = top_k(scores.T, wanted)
    else:
        # The best groups lie in the best bundles, and there are fewer bundles to sort.
        bundles = jnp.max(scores.reshape(-1, plan.bundle, scores.shape[1]), axis=1)
        _, bundle = top_k(bundles.T, min(wanted, bundles.shape[0]))
        inside = bundle[:, :, None] * plan.bundle + jnp.arange(plan.bundle)
        inside = inside.reshape(scores.shape[1], -1)
        best, place = top_k(scores.at[inside, queries].get(mode="promise_in_bounds"), wanted)
        group = jnp.take_along_axis(inside, place, axis=1)
    best_unseen = best[:, count] if wanted > count else None
    group = group[:, :count, None]
    start = group * plan.group
    counted = jnp.ones_like(start, bool)
    rows = start + jnp.arange(plan.group)
    if plan.tail:
        in_tail = start >= plan.main_rows
        rows = rows - jnp.where(in_tail, plan.main_rows + plan.tail - plan.capacity, 0)
        counted = ~in_tail | (rows >= plan.main_rows)
    elif plan.main_rows > plan.capacity:
        counted = rows < plan.capacity
        rows = jnp.minimum(rows, plan.capacity - 1)
    counted = jnp.broadcast_to(counted, rows.shape)
    shape = (scores.shape[1], -1)
    return Candidates(rows.reshape(shape), counted.reshape(shape), best_unseen)


def sum_of_squares(x: Float[Array, "*batch latent"]) -> Float[Array, "*batch"]:
    """|x|^2 of each row."""
    # A product with ones, because XLA's CPU backend does not vectorise a sum over the last axis.
    return jnp.dot(x * x, jnp.ones(x.shape[-1], x.dtype), precision=lax.Precision.HIGHEST)


def top_k(x: Float[Array, "batch n"], k: int) -> tuple[jax.Array, jax.Array]:
    """`lax.top_k` behind barriers that keep XLA on its fast implementation.

    Without a barrier XLA folds a slice of the result into the operation. It then no longer
    recognises the operation and sorts each whole row, which takes about 20 times longer on a CPU.
    """
    values, indices = lax.top_k(x, k)
    # One barrier over the pair aborts the compiler of jaxlib 0.10.2 inside shard_map if one of
    # the two results is not used.
    return lax.optimization_barrier(values), lax.optimization_barrier(indices)
