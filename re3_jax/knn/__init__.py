"""Exact k-nearest-neighbour distances between queries and a ring of latents.

These are the distances ||y_i - y_i^kNN|| of Eq. 3 of the RE3 paper,
r^int(s_i) = log(||y_i - y_i^kNN||_2 + 1). A query is a latent y_i; the rows of a `LatentRing` or
`DistinctRing` are the latents to compare it with.

- `kth_distance`: the distance to the k-th nearest row. The paper's k = 3 is `k=3`.
- `mean_distance`: the mean of the distances of ranks `first` to `k`.
- `nearest_distances`: the distances to the k nearest rows.
- `nearest_and_mean`: both `nearest_distances` and `mean_distance` from one search.
- `kth_joint_distance`: the distance to the k-th nearest row where a scalar belongs to each latent;
  `gap_between` is the gap of two scalars in it.

A search has two stages. `plan` cuts both inputs into pieces that fit the cache:

                      queries
                tile 0       tile 1
             +------------+------------+
    group 0  |   score    |            |  bundle 0   block 0: one matrix
    group 1  |   score    |            |             product with a tile
             +------------+------------+
    group 2  |   score    |            |  bundle 1
    group 3  |   score    |            |
             +============+============+
    group 4  |   score    |            |  bundle 2   block 1
    ...      |            |            |
             +------------+------------+
    rows of the ring: a group is a few neighbouring rows, a bundle a few neighbouring groups

1. Score groups. A matrix product of one block with one tile gives 2 x.y - |y|^2 for each query x
   and row y. Each group keeps the maximum of its rows, one score per query. The k nearest rows lie
   in the k groups with the best scores. To find these groups, the search first compares bundles
   by their best group.
2. Recompute distances. The search computes the squared distances to all rows of the best groups
   as sums of squared differences and selects the k smallest.

Equal latents therefore have distance exactly 0. Latents of the same observation have distance
exactly 0 as well if the caller passes fingerprints, even if their last bits differ. A row of a
`DistinctRing` counts as many times as it has copies.

Accuracy: distances are float32 sums over the right rows. If the rounding of the matrix product
could have hidden a nearer row, both stages run again with one of these queries as the origin of
stage 1, which settles all queries of a dense cluster together; what then remains is compared with
the whole ring by differences. No query is searched again where the error could not exceed
`search.TIE_TOLERANCE`; there the relative error of a distance stays below 2e-4.

Memory: the matrix queries x rows never takes more than 8 MB, for up to a million rows. Memory grows
with queries x groups.
On a CUDA device a kernel makes stage 1 of a search of latents alone, and the matrix is never in
memory (see `kernel`).

Gradients: latents are constants. No gradient flows to the queries or the ring.

Modules: `exact` has the public functions, `inputs` the arrays that a search reads and which rows
count, `scores` stage 1, `kernel` stage 1 on a CUDA device, `search` stage 2, `plan` the sizes of
the pieces, and `rings` the rules for `vmap` over rings.
"""

from re3_jax.knn.exact import (
    kth_distance,
    kth_joint_distance,
    mean_distance,
    nearest_and_mean,
    nearest_distances,
)
from re3_jax.knn.inputs import Ring, gap_between

__all__ = [
    "Ring",
    "gap_between",
    "kth_distance",
    "kth_joint_distance",
    "mean_distance",
    "nearest_and_mean",
    "nearest_distances",
]
