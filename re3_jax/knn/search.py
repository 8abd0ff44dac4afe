"""The search of one ring: stage 1 of `scores`, then stage 2, which recomputes the best rows."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from re3_jax import fingerprint
from re3_jax.knn.inputs import Queries, Rows, gap_between, valid_at, valid_in
from re3_jax.knn.plan import Plan, make_plan
from re3_jax.knn.scores import best_groups, score_groups, sum_of_squares, top_k

SMALL_K = 64
"""Largest k for brute-force rank lookup, which takes k^2 comparisons per query."""

WORTH_A_SEARCH = 16
"""Queries that take as long one by one as another search of all together."""

SPARE_GROUPS = 5
"""Groups that a repeated search compares beyond the fewest: each settles half of what was left."""

TIE_TOLERANCE = 3e-4
"""Tolerated relative error of a squared distance where the product cannot order rows."""


def search_ring(
    queries: Queries,
    own_row: Int[Array, " batch"],
    rows: Rows,
    last_row: Int[Array, ""],
    k: int,
    excluding: bool,
    fused: bool = False,
) -> Float[Array, "batch {k}"]:
    """Squared distances of each query to its k nearest rows, ascending.

    Args:
      queries: searched tile by tile.
      own_row: the row that does not count for each query, -1 for none.
      rows: the ring.
      last_row: rows at or past it hold no latent.
      k: the number of neighbours.
      excluding: whether `own_row` names any row.
      fused: whether `kernel` scores the groups.

    Returns:
      float32; +inf where no such neighbour exists.
    """
    batch, latent_dim = queries.latents.shape
    plan = make_plan(batch, rows.latents.shape[0], latent_dim, k + excluding, fused)

    def tile(queries_and_rows):
        queries, own_row = queries_and_rows
        return _search_tile(queries, own_row, rows, last_row, k, excluding, plan)

    if plan.num_tiles == 1:
        return tile((queries, own_row))
    missing = plan.num_tiles * plan.tile - batch

    def cut(x):
        padded = jnp.pad(x, ((0, missing), *((0, 0),) * (x.ndim - 1)))
        return padded.reshape(-1, plan.tile, *x.shape[1:])

    return lax.map(tile, jax.tree.map(cut, (queries, own_row))).reshape(-1, k)[:batch]


def _search_tile(
    queries: Queries, own_row, rows: Rows, last_row, k: int, excluding: bool, plan: Plan
) -> Float[Array, "batch {k}"]:
    def around(centre, spare: int):
        return _search_around(centre, queries, own_row, rows, last_row, k, excluding, plan, spare)

    nearest, settled = around(None, 0)
    if settled is None:
        return nearest
    if len(own_row) >= WORTH_A_SEARCH:
        nearest, settled = _search_around_queries(queries, nearest, settled, around)
    return _search_one_by_one(queries, own_row, rows, nearest, settled, excluding)


def _search_around(
    centre: Float[Array, " latent"] | None,
    queries: Queries,
    own_row,
    rows: Rows,
    last_row,
    k: int,
    excluding: bool,
    plan: Plan,
    spare: int,
) -> tuple[Float[Array, "batch {k}"], Bool[Array, " batch"] | None]:
    """Both stages with `centre` as the origin of stage 1: rounding grows with the distance to it.

    Stage 2 compares `spare` groups more than the k nearest rows can lie in. Their rows need not be
    told from those of the k-th by rounded scores.

    Returns:
      The squares, and whether each query is settled; None if every row was a candidate.
    """
    scored = queries.latents if centre is None else queries.latents - centre
    scores = score_groups(scored, rows, last_row, plan, centre, queries.scalars)
    # The excluded row may be the only good row of the best group: take one group more.
    candidates = best_groups(scores, min(k + excluding + spare, plan.num_groups), plan)
    place = candidates.rows
    differences = rows.latents.at[place].get(mode="promise_in_bounds") - queries.latents[:, None]
    squared = sum_of_squares(differences)
    squared = jnp.where(candidates.counted & valid_at(rows, place), squared, jnp.inf)
    of_copies = None
    if rows.fingerprints is not None and queries.fingerprints is not None:
        same = rows.fingerprints.at[place].get(mode="promise_in_bounds")
        same = same == queries.fingerprints[:, None]
        norms = jnp.sum(queries.latents * queries.latents, axis=1)
        squared = jnp.where(fingerprint.is_copy(same, squared, norms[:, None]), 0.0, squared)
        of_copies = fingerprint.COPY_TOLERANCE**2 * norms
    if queries.scalars is not None:
        squared = _with_gaps(squared, queries.scalars[:, None], rows, place)
    nearest = _k_smallest(squared, place, own_row[:, None], rows.copies, k, excluding)
    if candidates.best_unseen is None:
        return nearest, None
    return nearest, _is_settled(scored, nearest[:, -1], candidates.best_unseen, of_copies)


def _with_gaps(squared, scalars, rows: Rows, place) -> Float[Array, "*batch candidates"]:
    """The larger of the squares and of the squared gaps between the scalars."""
    assert rows.scalars is not None and rows.scale is not None
    beside = rows.scalars.at[place].get(mode="promise_in_bounds")
    return jnp.maximum(squared, jnp.square(gap_between(beside, scalars, rows.scale)))


def _k_smallest(
    squared, place, own_row, copies, k: int, excluding: bool
) -> Float[Array, "batch {k}"]:
    """The k smallest of each line of `squared`, each as often as its row has copies."""
    if copies is None:
        return -top_k(jnp.where(place == own_row, -jnp.inf, -squared), k)[0]
    # Each of the k nearest rows has at least one copy that counts, except the query's own row.
    wanted = min(k + excluding, squared.shape[1])
    score, best = top_k(-squared, wanted)
    row = jnp.take_along_axis(jnp.broadcast_to(place, squared.shape), best, axis=1)
    count = copies.at[row].get(mode="promise_in_bounds") - (row == own_row)
    find = partial(
        jnp.searchsorted, v=jnp.arange(1, k + 1), method="compare_all" if k <= SMALL_K else "scan"
    )
    of_rank = jax.vmap(find)(jnp.cumsum(count, axis=1))
    distances = jnp.pad(-score, ((0, 0), (0, 1)), constant_values=jnp.inf)
    return jnp.take_along_axis(distances, of_rank, axis=1)


def _is_settled(
    scored: Float[Array, "batch latent"],
    kth: Float[Array, " batch"],
    best_unseen: Float[Array, " batch"],
    of_copies: Float[Array, " batch"] | None,
) -> Bool[Array, " batch"]:
    """Whether no row outside the candidates can count as nearer than the k-th that was found.

    Args:
      scored: the queries as stage 1 saw them.
      kth: the square that was found.
      best_unseen: the best score of a group without candidates.
      of_copies: the largest square that counts as 0 if fingerprints are equal; None without them.
    """
    norms = jnp.sum(scored * scored, axis=1)
    # A row nearer than the k-th has at most the norm |x| + d.
    reach = 2 * jnp.sqrt(norms) + jnp.sqrt(jnp.where(jnp.isfinite(kth), kth, 0.0))
    unit = jnp.finfo(jnp.float32).eps / 2
    rounding = most_roundings(scored.shape[1]) * unit * reach * reach
    harmless = rounding <= TIE_TOLERANCE * kth
    nearest_unseen = norms - best_unseen - rounding
    if of_copies is None:
        return (kth == 0) | harmless | (kth <= nearest_unseen)
    # A copy may count as nearer than rows that are nearer.
    harmless &= 2 * of_copies <= kth
    return (kth == 0) | harmless | (jnp.maximum(kth, of_copies) <= nearest_unseen)


def most_roundings(latent_dim: int) -> float:
    """A bound on the error of |x|^2 - (2 x.y - |y|^2), in rounding units of (2 |x| + |x - y|)^2.

    That of a product of D terms grows as D where each sum is rounded the same way, as sqrt(D)
    otherwise; those of the norms and the difference do not grow. Equal terms come to 0.13 D, which
    is the most that is known; the worst that rounding allows, 0.5 D, would leave many queries of
    dense clusters to be searched again.
    """
    return 0.16 * latent_dim + 3.0


def _search_around_queries(queries: Queries, nearest, settled, around):
    """Repeats the search around queries that are not settled, while that settles many.

    Queries of one dense cluster become settled together: observations that hardly change, such as
    those of a body at rest, have latents far nearer to each other than to the origin.
    """

    def body(carry):
        nearest, settled, _ = carry
        found, now = around(_centre_of(queries.latents, settled), SPARE_GROUPS)
        new = ~settled if now is None else now & ~settled
        nearest = jnp.where(new[:, None], found, nearest)
        return nearest, settled | new, jnp.sum(new) >= WORTH_A_SEARCH

    def goes_on(carry):
        _, settled, was_worth_it = carry
        return was_worth_it & (jnp.sum(~settled) >= WORTH_A_SEARCH)

    # True, but of a type that varies over the devices of shard_map as the others do.
    start = nearest, settled, jnp.any(settled) | True
    return lax.while_loop(goes_on, body, start)[:2]


def _centre_of(
    latents: Float[Array, "batch latent"], settled: Bool[Array, " batch"]
) -> Float[Array, " latent"]:
    """The mean of the queries nearest to the first that is not settled, that one included.

    Of half as many as are worth a search: more might lie in another cluster.
    """
    away = sum_of_squares(latents - latents[jnp.argmin(settled)])
    away = jnp.where(settled, jnp.inf, away)
    _, near = top_k(-away[None], min(WORTH_A_SEARCH // 2, len(latents)))
    return jnp.mean(latents[near[0]], axis=0)


def _search_one_by_one(
    queries: Queries, own_row, rows: Rows, nearest, settled, excluding: bool
) -> Float[Array, "batch k"]:
    """Compares each query that is not settled with the whole ring by differences."""
    k, capacity = nearest.shape[1], rows.latents.shape[0]
    place = jnp.arange(capacity)[None]

    def body(carry):
        nearest, settled = carry
        i = jnp.argmin(settled)
        query = queries.latents[i]
        squared = jnp.sum((rows.latents - query) ** 2, axis=1)
        squared = jnp.where(valid_in(rows, 0, capacity), squared, jnp.inf)
        if rows.fingerprints is not None and queries.fingerprints is not None:
            same = rows.fingerprints == queries.fingerprints[i]
            squared = jnp.where(
                fingerprint.is_copy(same, squared, jnp.sum(query * query)), 0.0, squared
            )
        if queries.scalars is not None:
            squared = _with_gaps(squared, queries.scalars[i], rows, place[0])
        found = _k_smallest(squared[None], place, own_row[i], rows.copies, k, excluding)
        return lax.dynamic_update_slice_in_dim(nearest, found, i, 0), settled.at[i].set(True)

    return lax.while_loop(lambda carry: ~jnp.all(carry[1]), body, (nearest, settled))[0]
