"""The public functions of `knn`: they check the arguments and turn squares into distances."""

import operator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, UInt32

from re3_jax.cpu.branches import of_platform
from re3_jax.knn import kernel
from re3_jax.knn.inputs import Queries, Ring, rows_of
from re3_jax.knn.rings import DISTINCT_ROWS, Search, among_first_rows, over_rings
from re3_jax.knn.scores import top_k
from re3_jax.knn.search import search_ring
from re3_jax.replay.distinct_ring import DistinctRing


def kth_distance(
    queries: Float[Array, "batch latent"],
    ring: Ring,
    *,
    k: int,
    exclude: Int[Array, " batch"] | None = None,
    fingerprints: UInt32[Array, " batch"] | None = None,
    axis_name: str | None = None,
) -> Float[Array, " batch"]:
    """Euclidean distance of each query to its k-th nearest row: ||y_i - y_i^kNN|| of Eq. 3.

    Args:
      queries: float32 [batch, latent].
      ring: the rows to search, [capacity, latent].
      k: the rank of the neighbour; 1 is the nearest. The paper uses 3.
      exclude: int32 [batch], see `nearest_distances`.
      fingerprints: uint32 [batch], see `nearest_distances`.
      axis_name: see `nearest_distances`.

    Returns:
      float32 [batch], as `nearest_distances`. With fewer than k rows to choose from, the distance
      to the furthest of them; with no row, 0.

    Example:
      >>> import jax.numpy as jnp
      >>> from re3_jax import knn
      >>> from re3_jax.replay import latent_ring
      >>> rows = jnp.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
      >>> ring, _ = latent_ring.add(latent_ring.init(capacity=8, latent_dim=2), rows)
      >>> print(knn.kth_distance(jnp.array([[0.0, 0.0]]), ring, k=2))
      [5.]

    Raises:
      ValueError: if k is not in 1..capacity, if the shapes do not fit, or if `exclude` is no
        integers.
      TypeError: if queries or the ring are of another kind, or k is no whole number that is known
        before tracing.
    """
    return nearest_distances(
        queries, ring, k=k, exclude=exclude, fingerprints=fingerprints, axis_name=axis_name
    )[:, -1]


def kth_joint_distance(
    queries: Float[Array, "batch latent"],
    scalars: Float[Array, " batch"],
    ring: Ring,
    ring_scalars: Float[Array, " capacity"],
    *,
    k: int,
    scale: Float[Array, ""] | float = 1.0,
    exclude: Int[Array, " batch"] | None = None,
    fingerprints: UInt32[Array, " batch"] | None = None,
) -> Float[Array, " batch"]:
    """Distance of each query to its k-th nearest row in the space of latents and a scalar.

    The distance is max(||y_i - y_j||, c |v_i - v_j|), that of the estimator of Kraskov, Stogbauer
    and Grassberger (2004). Where c |v_i - v_j| is the larger, it is what `gap_between` gives, to
    the bit.

    Args:
      queries: float32 [batch, latent], y_i.
      scalars: float32 [batch], v_i.
      ring: the rows to search, [capacity, latent].
      ring_scalars: float32 [capacity], v_j of each row, the same for all copies of a
        `DistinctRing`.
      k: the rank of the neighbour; 1 is the nearest.
      scale: c, positive.
      exclude: int32 [batch], see `nearest_distances`.
      fingerprints: uint32 [batch], see `nearest_distances`; copies of an observation differ in
        their scalars alone.

    Returns:
      float32 [batch], as `kth_distance`.

    Raises:
      ValueError: if k is not in 1..capacity, if the shapes do not fit, or if `exclude` is no
        integers.
      TypeError: if queries or the ring are of another kind, or k is no whole number that is known
        before tracing.
    """
    rows = ring.latents.shape[0]
    if scalars.shape != queries.shape[:1] or ring_scalars.shape != (rows,):
        raise ValueError(
            f"scalars of {list(queries.shape[:1])} queries and [{rows}] rows are needed, but these "
            f"have the shapes {list(scalars.shape)} and {list(ring_scalars.shape)}"
        )
    beside = scalars, ring_scalars, jnp.asarray(scale, jnp.float32)
    squared = _squared_distances(queries, ring, k, exclude, fingerprints, None, beside)
    return _distances(squared)[:, -1]


def mean_distance(
    queries: Float[Array, "batch latent"],
    ring: Ring,
    *,
    k: int,
    first: int = 1,
    exclude: Int[Array, " batch"] | None = None,
    fingerprints: UInt32[Array, " batch"] | None = None,
    axis_name: str | None = None,
) -> Float[Array, " batch"]:
    """Mean Euclidean distance of each query to its neighbours of rank `first` to k, both included.

    The mean replaces ||y_i - y_i^kNN|| in Eq. 3, as in the released code. With `first=k` it equals
    `kth_distance`.

    Args:
      queries: float32 [batch, latent].
      ring: the rows to search, [capacity, latent].
      k: the rank of the furthest neighbour that counts.
      first: the rank of the nearest neighbour that counts.
      exclude: int32 [batch], see `nearest_distances`.
      fingerprints: uint32 [batch], see `nearest_distances`.
      axis_name: see `nearest_distances`.

    Returns:
      float32 [batch], as `nearest_distances`. With fewer than k rows to choose from, the mean over
      the ranks that exist; with fewer than `first`, the distance to the furthest row; with no row,
      0.

    Raises:
      ValueError: if not 1 <= first <= k <= capacity, if the shapes do not fit, or if `exclude` is
        no integers.
      TypeError: if queries or the ring are of another kind, or k is no whole number that is known
        before tracing.
    """
    return nearest_and_mean(
        queries,
        ring,
        k=k,
        first=first,
        exclude=exclude,
        fingerprints=fingerprints,
        axis_name=axis_name,
    )[1]


def nearest_and_mean(
    queries: Float[Array, "batch latent"],
    ring: Ring,
    *,
    k: int,
    first: int = 1,
    exclude: Int[Array, " batch"] | None = None,
    fingerprints: UInt32[Array, " batch"] | None = None,
    axis_name: str | None = None,
) -> tuple[Float[Array, "batch {k}"], Float[Array, " batch"]]:
    """`nearest_distances` and `mean_distance` from one search.

    Returns:
      float32 [batch, k] and float32 [batch].

    Raises:
      ValueError: if not 1 <= first <= k <= capacity, if the shapes do not fit, or if `exclude` is
        no integers.
      TypeError: if queries or the ring are of another kind, or k is no whole number that is known
        before tracing.
    """
    if not 1 <= first <= k:
        raise ValueError(
            f"neighbours of rank {first} to {k} do not exist: "
            "ranks count from 1 and first must not exceed k"
        )
    squared = _squared_distances(queries, ring, k, exclude, fingerprints, axis_name)
    available = jnp.sum(squared != jnp.inf, axis=1)
    rank = jnp.arange(1, k + 1)
    # With fewer rows than `first`, the furthest row stands for all ranks.
    start = jnp.minimum(first, available)[:, None]
    counted = (rank >= start) & (rank <= available[:, None])
    distance = jnp.sqrt(jnp.where(counted, squared, 0.0))
    mean = jnp.sum(distance, axis=1) / jnp.maximum(jnp.sum(counted, axis=1), 1)
    return _distances(squared), mean


def nearest_distances(
    queries: Float[Array, "batch latent"],
    ring: Ring,
    *,
    k: int,
    exclude: Int[Array, " batch"] | None = None,
    fingerprints: UInt32[Array, " batch"] | None = None,
    axis_name: str | None = None,
) -> Float[Array, "batch {k}"]:
    """Euclidean distances of each query to its k nearest rows, ascending.

    Column j holds ||y_i - y_i^(j+1)NN|| of Eq. 3.

    Args:
      queries: float32 [batch, latent].
      ring: the rows to search, [capacity, latent]. The search never finds rows that hold no
        latent.
      k: the number of neighbours.
      exclude: int32 [batch], for each query the row that does not count, usually the query's own;
        -1 if every row counts. With None every row counts for every query: a stored query then
        finds itself at distance 0. The index that `latent_ring.add` returned is the row; of a
        `DistinctRing`, `distinct_ring.row_at` turns it into one.
      fingerprints: uint32 [batch], `fingerprint.of` the queries' observations. Rows of the same
        observation then have distance exactly 0. None compares latents only.
      axis_name: inside `shard_map`, the mesh axis over which the rows are split. Each device
        passes its slice as a ring of its own, whose `num_valid` is that of the slice, and the same
        queries. Row numbers in `exclude` count through the slices in the order of the devices.

    Returns:
      float32 [batch, k]. With fewer than k rows to choose from, the missing distances repeat the
      largest; with no row they are 0. All are finite, but for a query with NaN or infinity, or
      whose square overflows: it gets NaN. A row of the ring that was stored with such numbers is a
      neighbour of nothing, and leaves every other distance as it is.

    Example:
      >>> import jax.numpy as jnp
      >>> from re3_jax import knn
      >>> from re3_jax.replay import latent_ring
      >>> rows = jnp.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
      >>> ring, index = latent_ring.add(latent_ring.init(capacity=8, latent_dim=2), rows)
      >>> print(knn.nearest_distances(rows, ring, k=2, exclude=index))
      [[ 5. 10.]
       [ 5.  5.]
       [ 5. 10.]]

    Raises:
      ValueError: if k is not in 1..capacity, if the shapes do not fit, or if `exclude` is no
        integers.
      TypeError: if queries or the ring are of another kind, or k is no whole number that is known
        before tracing.
    """
    return _distances(_squared_distances(queries, ring, k, exclude, fingerprints, axis_name))


def _distances(squared: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
    # Missing neighbours are +inf and come last. The running maximum repeats the furthest row.
    return jnp.sqrt(lax.cummax(jnp.where(squared == jnp.inf, 0.0, squared), axis=1))


def _squared_distances(
    queries, ring: Ring, k: int, exclude, fingerprints, axis_name, scalars=(None, None, None)
) -> Float[Array, "batch k"]:
    """Checks the arguments and searches: squares, ascending, +inf where no neighbour exists.

    All squares of a query are NaN if it is not finite. `scalars` are those of the queries, those of
    the rows, and the scale of gaps.
    """
    _check_kinds(queries, ring)
    k = _whole(k)
    shards = 1 if axis_name is None else lax.axis_size(axis_name)
    _check(queries, ring, k, ring.latents.shape[0] * shards, exclude, fingerprints)
    if not queries.shape[0]:
        return jnp.zeros((0, k), jnp.float32)
    # The kernel scores latents alone.
    fuses = kernel.is_wanted() and scalars[0] is None
    return _search(
        queries, ring, exclude, fingerprints, scalars, k=k, axis_name=axis_name, fuses=fuses
    )


# Outside `jit`, the rules for `vmap`, made anew by each call, would be compiled by each call.
@partial(jax.jit, static_argnames=("k", "axis_name", "fuses"), inline=True)
def _search(
    queries, ring: Ring, exclude, fingerprints, scalars, *, k: int, axis_name, fuses: bool
) -> Float[Array, "batch k"]:
    capacity = ring.latents.shape[0]
    own_row = jnp.full(queries.shape[:1], -1, jnp.int32) if exclude is None else exclude
    if axis_name is not None:
        own_row = own_row - lax.axis_index(axis_name) * capacity
    own_row = own_row.astype(jnp.int32)
    rows, num_rows = rows_of(ring, with_fingerprints=fingerprints is not None)
    of_queries, of_rows, scale = scalars
    queries = queries.astype(ring.latents.dtype)
    is_finite = jnp.isfinite(jnp.sum(queries * queries, axis=1))
    # The search repeats itself for queries that it cannot settle, and NaN settles nothing.
    queries = jnp.where(is_finite[:, None], queries, 0.0)
    if of_queries is not None:
        is_finite &= jnp.isfinite(of_queries)
        of_queries = jnp.where(is_finite, of_queries, 0.0)
        # Whatever the scale, the square of a gap to it overflows.
        of_rows = jnp.where(jnp.isfinite(of_rows), of_rows, jnp.finfo(jnp.float32).max)
    beside = rows._replace(scalars=of_rows, scale=scale)
    given = Queries(queries, fingerprints, of_queries), own_row, beside, num_rows
    arguments = lax.stop_gradient(given)
    search_one = partial(search_ring, k=min(k, capacity), excluding=exclude is not None)
    search = over_rings(_fused_on_cuda(search_one) if fuses else search_one)
    if isinstance(ring, DistinctRing):
        sizes = [size for size in DISTINCT_ROWS if k < size < capacity] + [capacity]
        search = among_first_rows(search, sizes)
    squared = search(*arguments)
    if axis_name is not None:
        gathered = lax.all_gather(squared, axis_name, axis=1, tiled=True)
        squared = -top_k(-gathered, k)[0]
    return jnp.where(is_finite[:, None], squared, jnp.nan)


def _fused_on_cuda(search_one: Search) -> Search:
    """`search_one`, with the kernel in programs that are lowered for CUDA."""

    def search(*arguments):
        fused = partial(search_one, fused=True)
        return of_platform(*arguments, cuda=fused, default=search_one)

    return search


def _check_kinds(queries: Any, ring: Any) -> None:
    """Raises TypeError unless these are arrays and a `Ring`."""
    if not isinstance(queries, jax.Array | np.ndarray):
        raise TypeError(f"queries are a {type(queries).__name__}: give an array [batch, latent]")
    if not isinstance(ring, Ring):
        raise TypeError(
            f"ring is a {type(ring).__name__}: give a LatentRing, as latent_ring.add fills it"
        )


def _whole(k: Any) -> int:
    """Python's number of k, which decides the program; a TypeError if it is none yet."""
    try:
        return operator.index(k)
    except TypeError:
        raise TypeError(f"k is {k!r}: give a whole number that is known before tracing") from None


def _check(queries, ring: Ring, k: int, num_rows: int, exclude, fingerprints) -> None:
    """Raises ValueError unless the arguments fit each other."""
    latent_dim = ring.latents.shape[1]
    if not 1 <= k <= num_rows:
        raise ValueError(
            f"neighbour {k} of a ring of {num_rows} rows does not exist: "
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
    if exclude is not None and not jnp.issubdtype(exclude.dtype, jnp.integer):
        raise ValueError(
            f"exclude has the dtype {exclude.dtype}, but row indices are integers: pass the index "
            "that the ring's add returned, -1 where every row counts"
        )
    if fingerprints is not None and fingerprints.shape != queries.shape[:1]:
        raise ValueError(
            f"fingerprints have shape {fingerprints.shape} but there are {queries.shape[0]} "
            "queries: pass one per query"
        )
