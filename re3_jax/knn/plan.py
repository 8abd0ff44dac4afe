"""The sizes of the tiles, blocks, groups and bundles of a search, chosen from static shapes.

The docstring of `re3_jax.knn` shows a picture of them.
"""

import functools
from typing import NamedTuple

# The product of a tile of queries and a block of rows stays in the cache of a core.
TILE_QUERIES = 512
BLOCK_ROWS = 2000
# A product of at most this size stays in the shared cache. One product is then faster than a loop
# over blocks.
WHOLE_BYTES = 8_000_000
# Scores of at most this size are in the memory of a GPU at a time.
SCORE_BYTES = 1_000_000_000


class Plan(NamedTuple):
    """The sizes of one search.

    Attributes:
      capacity: rows of the ring.
      tile: queries that are searched together.
      num_tiles: tiles that cover the batch.
      group: neighbouring rows that share one score.
      bundle: neighbouring groups that are first compared as one.
      main_rows: rows that fill whole bundles; of a `fused` plan the last bundle reaches past the
        capacity.
      tail: rows at the end of the ring that cover the remaining rows: 0 if no row remains, else
        one bundle, which overlaps the main rows.
      block: rows whose product with a tile is in memory at a time, a multiple of a bundle.
      fits_cache: whether the product of a tile with the whole ring fits the cache.
      fused: whether `kernel` scores the groups; blocks have no meaning then.
    """

    capacity: int
    tile: int
    num_tiles: int
    group: int
    bundle: int
    main_rows: int
    tail: int
    block: int
    fits_cache: bool
    fused: bool = False

    @property
    def num_groups(self) -> int:
        """The number of groups that are scored, those of the tail included."""
        return (self.main_rows + self.tail) // self.group


@functools.cache
def make_plan(batch: int, capacity: int, latent_dim: int, k: int, fused: bool = False) -> Plan:
    """The cheapest plan, by estimate, for the k nearest of `capacity` rows to `batch` queries."""
    if fused:
        return _fused_plan(batch, capacity, latent_dim, k)
    num_tiles = max(1, -(-batch // TILE_QUERIES))
    tile = -(-batch // num_tiles)
    _, group, bundle = min(
        (_cost(capacity, latent_dim, k, group, bundle), group, bundle)
        for group in range(1, min(capacity, 64) + 1)
        for bundle in range(1, min(capacity // group, 128) + 1)
    )
    unit = group * bundle
    main_rows = capacity // unit * unit
    most = min(main_rows, max(unit, BLOCK_ROWS // unit * unit))
    # Blocks of about equal size: the last block then overlaps the one before it least.
    block = -(-main_rows // -(-main_rows // most) // unit) * unit
    return Plan(
        capacity=capacity,
        tile=tile,
        num_tiles=num_tiles,
        group=group,
        bundle=bundle,
        main_rows=main_rows,
        tail=unit if main_rows < capacity else 0,
        block=block,
        fits_cache=4 * tile * capacity <= WHOLE_BYTES,
    )


def _fused_plan(batch: int, capacity: int, latent_dim: int, k: int) -> Plan:
    """The plan with the fewest bytes; groups are powers of two, as Triton's arrays must be."""
    _, group, bundle = min(
        (_bytes_moved(capacity, latent_dim, k, group, bundle), group, bundle)
        for group in (8, 16, 32, 64, 128)
        for bundle in range(1, 129)
    )
    main_rows = -(-capacity // (group * bundle)) * group * bundle
    num_tiles = -(-4 * batch * main_rows // group // SCORE_BYTES)
    return Plan(
        capacity=capacity,
        tile=-(-batch // num_tiles),
        num_tiles=num_tiles,
        group=group,
        bundle=bundle,
        main_rows=main_rows,
        tail=0,
        block=main_rows,
        fits_cache=False,
        fused=True,
    )


def _bytes_moved(capacity: int, latent_dim: int, k: int, group: int, bundle: int) -> float:
    """Bytes per query, without those of the ring.

    Scores are written and read, so are the best of each bundle, and a selection reads four bytes
    and writes eight. Each score inside a bundle is a line of 32 bytes.
    """
    bundles = -(-capacity // (group * bundle))
    inside = min(k + 1, bundles) * bundle
    return 8 * bundles * bundle + 20 * bundles + 44 * inside + 4 * k * group * latent_dim


def _cost(capacity: int, latent_dim: int, k: int, group: int, bundle: int) -> float:
    """Estimated nanoseconds per query, without the matrix product.

    On two cores of an EPYC (Zen 4), a selection takes 1.5 ns per element (more for large k), a
    maximum 0.1 ns per element, a recomputed coordinate 0.35 ns, and a score lookup 2 ns.
    """
    select = 1.5 + k / 50
    groups = capacity / group
    recompute = k * group * (0.35 * latent_dim + select)
    if bundle == 1:
        choose = select * groups
    else:
        inside = min(k + 1, groups / bundle) * bundle
        choose = 0.1 * groups + select * (groups / bundle) + (2 + select) * inside
    tail = 0.2 * group * bundle if capacity % (group * bundle) else 0.0
    return choose + recompute + 0.1 * groups + tail
