"""Exact k-nearest-neighbour distances between queries and a ring of latents.

The distances of Eq. 3 of the paper, r^i = log(||y_i - y_i^kNN|| + 1), to every written row of a
ring, in two stages. The first scores whole groups of rows by one matrix product per block,
keeping only the best score of each group. The k nearest rows always lie in the k groups with the
best scores, so the second recomputes just those rows as sums of squared differences: an exact
copy comes out as exactly 0. A query whose groups the rounding of the product could have
confused is searched again by differences over the whole ring. In a `distinct_ring` a row is as many
neighbours as it has copies.

Accuracy: float32 sums of squared differences over the right rows; where two rows are so close to
tied that the product cannot tell them apart, the relative error stays below 2e-4.
Memory: queries x ring is never stored beyond 8 MB; what grows is queries x groups.
Latents are taken as constants: no gradient flows to queries or ring.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from re3_jax.knn_plan import Plan, make_plan
from re3_jax.knn_rings import DISTINCT_ROWS, among_first_rows, over_rings
from re3_jax.replay.distinct_ring import DistinctRing
from re3_jax.replay.latent_ring import LatentRing

Ring = LatentRing | DistinctRing

# Neighbours up to which every rank is compared with every row: k^2 comparisons of each query.
FEW = 64

# Tolerated relative error of a squared distance between rows that the product cannot order.
TIE_TOLERANCE = 3e-4


def kth_distance(
    queries: Float[Array, "batch latent"],
    ring: Ring,
    *,
    k: int,
    exclude: Int[Array, " batch"] | None = None,
    axis_name: str | None = None,
) -> Float[Array, " batch"]:
    """Euclidean distance of each query to its k-th nearest row (k=1: the nearest).

    With fewer than k rows to choose from it is the distance to the furthest of them, with none 0.
    `exclude` and `axis_name` are those of `nearest_distances`.

    Raises:
      ValueError: if k is not in 1..capacity, or the shapes do not fit.
    """
    return nearest_distances(queries, ring, k=k, exclude=exclude, axis_name=axis_name)[:, -1]


def mean_distance(
    queries: Float[Array, "batch latent"],
    ring: Ring,
    *,
    first: int,
    last: int,
    exclude: Int[Array, " batch"] | None = None,
    axis_name: str | None = None,
) -> Float[Array, " batch"]:
    """Mean Euclidean distance to the neighbours of rank `first` to `last`, both included.

    With fewer than `last` rows to choose from it is the mean over the ranks that exist, with fewer
    than `first` the distance to the furthest, with none 0.

    Raises:
      ValueError: if not 1 <= first <= last <= capacity, or the shapes do not fit.
    """
    return nearest_and_mean(
        queries, ring, first=first, last=last, exclude=exclude, axis_name=axis_name
    )[1]


def nearest_and_mean(
    queries: Float[Array, "batch latent"],
    ring: Ring,
    *,
    first: int,
    last: int,
    exclude: Int[Array, " batch"] | None = None,
    axis_name: str | None = None,
) -> tuple[Float[Array, "batch {last}"], Float[Array, " batch"]]:
    """One search: `nearest_distances` of the `last` nearest rows, and `mean_distance`.

    Raises:
      ValueError: if not 1 <= first <= last <= capacity, or the shapes do not fit.
    """
    if not 1 <= first <= last:
        raise ValueError(
            f"neighbours of rank {first} to {last} do not exist: "
            "ranks count from 1 and the first must not exceed the last"
        )
    squared = _checked_search(queries, ring, last, exclude, axis_name)
    available = jnp.sum(jnp.isfinite(squared), axis=1)
    rank = jnp.arange(1, last + 1)
    # With fewer rows than `first`, the furthest row stands for all the ranks asked.
    start = jnp.minimum(first, available)[:, None]
    counted = (rank >= start) & (rank <= available[:, None])
    distance = jnp.sqrt(jnp.where(counted, squared, 0.0))
    mean = jnp.sum(distance, axis=1) / jnp.maximum(jnp.sum(counted, axis=1), 1)
    return _ascending(squared), mean


def nearest_distances(
    queries: Float[Array, "batch latent"],
    ring: Ring,
    *,
    k: int,
    exclude: Int[Array, " batch"] | None = None,
    axis_name: str | None = None,
) -> Float[Array, "batch {k}"]:
    """Euclidean distances of each query to its k nearest rows, ascending.

    Args:
      queries: float32 latents.
      ring: rows to search; those not yet written are never found.
      k: number of neighbours.
      exclude: for each query the row that is left out, as a rule its own (so that it is not
        counted as its own neighbour); -1 leaves nothing out. None counts every row: a query that
        is stored finds itself at distance 0.
      axis_name: inside `shard_map`, the mesh axis over which the rows are split. Each device
        passes its slice as a ring of its own, the same queries, and row numbers in `exclude`
        that count through the slices in the order of the devices.

    Returns:
      Finite distances; with fewer than k rows to choose from the missing ones repeat the
      furthest, with none they are 0.

    Raises:
      ValueError: if k is not in 1..capacity, or the shapes do not fit.
    """
    return _ascending(_checked_search(queries, ring, k, exclude, axis_name))


def _ascending(squared: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
    # Missing places are +inf and come last: the running maximum repeats the furthest row.
    return jnp.sqrt(lax.cummax(jnp.where(jnp.isfinite(squared), squared, 0.0), axis=1))


def _checked_search(queries, ring, k, exclude, axis_name) -> Float[Array, "batch k"]:
    """Squared distances, ascending, +inf where there is no such neighbour."""
    capacity, latent_dim = ring.latents.shape
    shards = 1 if axis_name is None else lax.axis_size(axis_name)
    if not 1 <= k <= capacity * shards:
        raise ValueError(
            f"neighbour {k} of a ring of {capacity * shards} rows does not exist: "
            "choose k between 1 and the capacity"
        )
    if queries.ndim != 2 or queries.shape[1] != latent_dim:
        raise ValueError(
            f"queries of shape {queries.shape} do not fit a ring of {latent_dim}-dimensional "
            f"latents: pass an array of shape (batch, {latent_dim})"
        )
    if exclude is not None and exclude.shape != queries.shape[:1]:
        raise ValueError(
            f"exclude has shape {exclude.shape} but there are {queries.shape[0]} queries: "
            "pass one row index per query"
        )
    own_row = jnp.full(queries.shape[:1], -1, jnp.int32) if exclude is None else exclude
    if axis_name is not None:
        own_row = own_row - lax.axis_index(axis_name) * capacity
    own_row = own_row.astype(jnp.int32)
    distinct = isinstance(ring, DistinctRing)
    rows = _Rows(ring.latents, ring.squared_norms, ring.copies if distinct else None)
    num_rows = ring.num_rows if distinct else ring.num_valid
    arguments = lax.stop_gradient((queries, own_row, rows, num_rows))
    search = over_rings(partial(_search, k=min(k, capacity), excluding=exclude is not None))
    if distinct:
        sizes = [size for size in DISTINCT_ROWS if k < size < capacity] + [capacity]
        search = among_first_rows(search, sizes)
    squared = search(*arguments)
    if axis_name is None:
        return squared
    gathered = lax.all_gather(squared, axis_name, axis=1, tiled=True)
    return -_top_k(-gathered, k)[0]


class _Rows(NamedTuple):
    """What is searched; `copies` is how many neighbours each row is, None where each is one."""

    latents: Float[Array, "capacity latent"]
    norms: Float[Array, " capacity"]
    copies: Int[Array, " capacity"] | None


def _search(queries, own_row, rows: _Rows, last_row, k, excluding) -> Float[Array, "batch k"]:
    """Squared distances to the k nearest rows; `last_row` bounds the rows that are looked at."""
    batch, latent_dim = queries.shape
    plan = make_plan(batch, rows.latents.shape[0], latent_dim, k + excluding)

    def tile(queries_and_rows):
        queries, own_row = queries_and_rows
        return _search_tile(queries, own_row, rows, last_row, k, excluding, plan)

    if plan.num_tiles == 1:
        return tile((queries, own_row))
    missing = plan.num_tiles * plan.tile - batch
    tiles = jnp.pad(queries, ((0, missing), (0, 0))).reshape(-1, plan.tile, latent_dim)
    own_rows = jnp.pad(own_row, (0, missing), constant_values=-1).reshape(-1, plan.tile)
    return lax.map(tile, (tiles, own_rows)).reshape(-1, k)[:batch]


class _Candidates(NamedTuple):
    """The rows of each query's best groups, and what every other row scores at most."""

    rows: Int[Array, "batch candidates"]
    counted: Bool[Array, "batch candidates"]
    best_unseen: Float[Array, " batch"] | None


def _search_tile(queries, own_row, rows: _Rows, last_row, k, excluding, plan: Plan):
    scores = _group_scores(queries, rows.latents, rows.norms, last_row, plan)
    # One group more than needed: its score bounds all that is left out. A row that is to be
    # left out may take up the best group for itself.
    candidates = _best_groups(scores, min(k + excluding, plan.num_groups), plan)
    place = candidates.rows
    differences = rows.latents.at[place].get(mode="promise_in_bounds") - queries[:, None]
    # A product with ones, because XLA's CPU backend does not vectorise a sum over the last axis.
    squared = jnp.dot(
        differences * differences, jnp.ones(queries.shape[1]), precision=lax.Precision.HIGHEST
    )
    counted = candidates.counted & jnp.isfinite(rows.norms.at[place].get(mode="promise_in_bounds"))
    squared = jnp.where(counted, squared, jnp.inf)
    nearest = _nearest(squared, place, own_row[:, None], rows.copies, k, excluding)
    if candidates.best_unseen is None:
        return nearest
    settled = _is_settled(queries, nearest[:, -1], candidates.best_unseen)
    return _search_again(queries, own_row, rows, nearest, settled, excluding)


def _nearest(squared, place, own_row, copies, k, excluding) -> Float[Array, "batch k"]:
    """The k least of each row of `squared`, each as often as its row of the ring counts."""
    if copies is None:
        return -_top_k(jnp.where(place == own_row, -jnp.inf, -squared), k)[0]
    # Each of the k nearest rows has a copy at least, but for one that is the query's own.
    wanted = min(k + excluding, squared.shape[1])
    score, best = _top_k(-squared, wanted)
    row = jnp.take_along_axis(jnp.broadcast_to(place, squared.shape), best, axis=1)
    count = copies.at[row].get(mode="promise_in_bounds") - (row == own_row)
    find = partial(
        jnp.searchsorted, v=jnp.arange(1, k + 1), method="compare_all" if k <= FEW else "scan"
    )
    of_rank = jax.vmap(find)(jnp.cumsum(count, axis=1))
    distances = jnp.pad(-score, ((0, 0), (0, 1)), constant_values=jnp.inf)
    return jnp.take_along_axis(distances, of_rank, axis=1)


def _group_scores(queries, latents, norms, last_row, plan: Plan) -> Float[Array, "groups batch"]:
    """Largest 2 x.y - |y|^2 in each group of rows y: the larger, the nearer to x."""
    doubled = 2 * queries

    def score(rows, row_norms):
        product = lax.dot_general(
            rows, doubled, (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST
        )
        grouped = (product - row_norms[:, None]).reshape(-1, plan.group, queries.shape[0])
        return jnp.max(grouped, axis=1)

    def whole():
        return score(latents[: plan.main_rows], norms[: plan.main_rows])

    def blocks():
        def body(i, scores):
            # The last block may overlap the one before it: it writes the same scores again.
            start = jnp.minimum(i * plan.block, plan.main_rows - plan.block)
            rows = lax.dynamic_slice_in_dim(latents, start, plan.block)
            row_norms = lax.dynamic_slice_in_dim(norms, start, plan.block)
            return lax.dynamic_update_slice_in_dim(
                scores, score(rows, row_norms), start // plan.group, 0
            )

        nothing = jnp.full((plan.main_rows // plan.group, queries.shape[0]), -jnp.inf)
        nothing = _varying_like(nothing, (queries, latents, last_row))
        written = jnp.minimum(last_row, plan.main_rows)
        return lax.fori_loop(0, -(-written // plan.block), body, nothing)

    if not plan.fits_cache:
        scores = blocks()
    elif plan.block == plan.main_rows:
        scores = whole()
    else:
        scores = lax.cond(last_row > plan.main_rows // 2, whole, blocks)
    if plan.tail == 0:
        return scores
    start = latents.shape[0] - plan.tail
    is_new = jnp.arange(start, latents.shape[0]) >= plan.main_rows
    tail = score(latents[start:], jnp.where(is_new, norms[start:], jnp.inf))
    return jnp.concatenate([scores, tail])


def _best_groups(scores, count: int, plan: Plan) -> _Candidates:
    """The rows of the `count` groups of highest score."""
    queries = jnp.arange(scores.shape[1])[:, None]
    wanted = min(count + 1, plan.num_groups)
    if plan.bundle == 1:
        best, group = _top_k(scores.T, wanted)
    else:
        # The best groups lie in the best bundles of groups; sorting bundles is cheaper.
        bundles = jnp.max(scores.reshape(-1, plan.bundle, scores.shape[1]), axis=1)
        _, bundle = _top_k(bundles.T, min(wanted, bundles.shape[0]))
        inside = bundle[:, :, None] * plan.bundle + jnp.arange(plan.bundle)
        inside = inside.reshape(scores.shape[1], -1)
        best, place = _top_k(scores.at[inside, queries].get(mode="promise_in_bounds"), wanted)
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
    counted = jnp.broadcast_to(counted, rows.shape)
    shape = (scores.shape[1], -1)
    return _Candidates(rows.reshape(shape), counted.reshape(shape), best_unseen)


def _is_settled(queries, kth, best_unseen) -> Bool[Array, " batch"]:
    """Whether no row outside the candidates can be nearer than the k-th found."""
    norm = jnp.sum(queries * queries, axis=1)
    # Twice the largest error seen: rounding of a product of D terms grows as sqrt(D), and a row
    # nearer than the k-th is no longer than |x| + d.
    reach = 2 * jnp.sqrt(norm) + jnp.sqrt(jnp.where(jnp.isfinite(kth), kth, 0.0))
    rounding = 0.5 * queries.shape[1] ** 0.5 * jnp.finfo(jnp.float32).eps / 2 * reach * reach
    harmless = rounding <= TIE_TOLERANCE * kth
    return (kth == 0) | harmless | (kth <= norm - best_unseen - rounding)


def _search_again(queries, own_row, rows: _Rows, nearest, settled, excluding):
    """Replaces what is not settled, one query at a time, by differences over the whole ring."""
    k = nearest.shape[1]
    place = jnp.arange(rows.latents.shape[0])[None]

    def body(carry):
        nearest, settled = carry
        i = jnp.argmin(settled)
        squared = jnp.sum((rows.latents - queries[i]) ** 2, axis=1)
        squared = jnp.where(jnp.isfinite(rows.norms), squared, jnp.inf)[None]
        found = _nearest(squared, place, own_row[i], rows.copies, k, excluding)
        return lax.dynamic_update_slice_in_dim(nearest, found, i, 0), settled.at[i].set(True)

    return lax.while_loop(lambda carry: ~jnp.all(carry[1]), body, (nearest, settled))[0]


def _top_k(x, k: int):
    # Without a barrier XLA folds a slice of the result into the operation and then no longer
    # recognises it: it sorts the whole row, about 20 times slower on a CPU. (One barrier over the
    # pair aborts the compiler of jaxlib 0.10.2 inside shard_map when one half is not used.)
    values, indices = lax.top_k(x, k)
    return lax.optimization_barrier(values), lax.optimization_barrier(indices)


def _varying_like(constant, others):
    """The same constant, typed as varying over the mesh axes of `others`.

    Inside shard_map a loop asks this of what it starts from. A select between two equal values
    takes its type from the condition, in every version of JAX, and XLA removes it.
    """
    condition = sum(jnp.ravel(other)[0].astype(jnp.float32) for other in others) > 0
    return jnp.where(condition, constant, constant)
