"""Dense clusters far from the origin, which a matrix product cannot order, against float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from re3_jax import fingerprint, knn
from re3_jax.knn import exact
from re3_jax.knn import search as search_module
from re3_jax.replay import latent_ring

ROWS, DIM, QUERIES, K = 3_000, 50, 64, 3


def clusters(number, spread, seed):
    """Rows in clusters of `spread` around points at a distance of about 4 from the origin."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(number, DIM)) * 4 / DIM**0.5
    places = centres[rng.integers(number, size=ROWS)]
    return (places + spread / DIM**0.5 * rng.normal(size=(ROWS, DIM))).astype(np.float32)


def expected(latents, own_row, prints=None):
    rows = latents.astype(np.float64)
    squared = ((rows[own_row, None] - rows[None]) ** 2).sum(-1)
    if prints is not None:
        near = squared <= (fingerprint.COPY_TOLERANCE**2 * (rows[own_row] ** 2).sum(-1))[:, None]
        squared[near & (prints[own_row, None] == prints[None])] = 0.0
    squared[np.arange(len(own_row)), own_row] = np.inf
    return np.sqrt(np.sort(squared, axis=1)[:, :K])


@pytest.fixture
def found(monkeypatch):
    """A search, and the number of queries left for the search one by one."""
    left = []
    one_by_one = search_module._search_one_by_one

    def count(*arguments):
        jax.debug.callback(lambda settled: left.append(int((~settled).sum())), arguments[4])
        return one_by_one(*arguments)

    monkeypatch.setattr(search_module, "_search_one_by_one", count)
    exact._search.clear_cache()

    def search(latents, own_row, prints=None):
        ring, _ = latent_ring.add(
            latent_ring.init(ROWS, DIM), jnp.asarray(latents), None if prints is None else prints
        )
        # A function of its own: JAX would not trace the same one again.
        nearest = jax.jit(partial(knn.nearest_distances, k=K))
        distances = nearest(
            jnp.asarray(latents[own_row]),
            ring,
            exclude=jnp.asarray(own_row, jnp.int32),
            fingerprints=None if prints is None else jnp.asarray(prints[own_row]),
        )
        jax.effects_barrier()
        return np.asarray(distances), left.pop()

    yield search
    exact._search.clear_cache()


@pytest.mark.parametrize("number", [1, 3, 30])
def test_nearest_rows_of_dense_clusters(found, number):
    latents = clusters(number, 2e-3, seed=number)
    own_row = np.random.default_rng(0).choice(ROWS, QUERIES, replace=False)
    distances, left = found(latents, own_row)
    np.testing.assert_allclose(distances, expected(latents, own_row), rtol=2e-4)
    # Queries of few clusters are settled together, others one by one.
    assert left <= 16 if number < 10 else left > 16


def test_queries_on_a_circle_are_settled_together(found):
    """As frames of a pendulum: in one dimension some rows are about as near as the k-th."""
    rng = np.random.default_rng(0)
    axes, angles = np.linalg.qr(rng.normal(size=(DIM, 3)))[0].T, rng.uniform(high=6.28, size=ROWS)
    circle = np.stack([np.cos(angles), np.sin(angles), np.full(ROWS, 4.0)], axis=1)
    latents = (circle @ axes).astype(np.float32)
    own_row = np.arange(QUERIES)
    distances, left = found(latents, own_row)
    np.testing.assert_allclose(distances, expected(latents, own_row), rtol=2e-4)
    assert left <= 4


@pytest.mark.parametrize(
    ("dim", "rows", "spread"),
    [(1, 64, 1e-2), (2, 5, 1e-3), (2, 64, 1e-3), (3, 64, 1e-3), (4, 64, 1e-3), (5, 64, 1e-3)],
)
def test_clusters_of_few_dimensions(dim, rows, spread):
    """256 rings, whose products round by more than the square root of the dimension says."""
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(256, 1, dim))
    latents, queries = (
        (centre + spread * rng.normal(size=(256, count, dim))).astype(np.float32)
        for count in (rows, QUERIES)
    )

    def nearest(rows_and_queries):
        ring, _ = latent_ring.add(latent_ring.init(rows, dim), rows_and_queries[0])
        return knn.kth_distance(rows_and_queries[1], ring, k=1)

    found = jax.jit(lambda *both: jax.lax.map(nearest, both))(latents, queries)
    gaps = queries[:, :, None].astype(np.float64) - latents[:, None].astype(np.float64)
    np.testing.assert_allclose(found, np.sqrt((gaps**2).sum(-1)).min(-1), rtol=2e-4)


def equal_numbers(rng, dim):
    """Each sum of a product is rounded the same way as the one before."""
    return np.repeat(rng.normal(size=(20, 1, 1)), dim, axis=2)


def one_large_number(rng, dim):
    """The products of the others are added to a sum that is far larger than each."""
    return np.where(np.arange(dim) == 0, 100.0, 0.01) * np.ones((20, 1, 1))


def normal_numbers(rng, dim):
    return rng.normal(size=(20, 1, dim))


@pytest.mark.parametrize("centres", [normal_numbers, equal_numbers, one_large_number])
@pytest.mark.parametrize("spread", [1.0, 0.1, 1e-3])
@pytest.mark.parametrize("dim", [1, 2, 4, 8, 16, 50, 128, 512])
def test_products_round_by_no_more_than_the_bound(dim, spread, centres):
    """In clusters of a spread in parts of their distance from the origin."""
    rng = np.random.default_rng(dim)
    centre = centres(rng, dim) * (spread < 1)
    x, y = (
        (centre + spread * rng.normal(size=(20, 400, dim))).astype(np.float32) for _ in range(2)
    )

    @jax.jit
    def squares(x, y):
        product = jnp.matmul(x, y.swapaxes(1, 2), precision="highest")
        return (x * x).sum(-1)[..., None] - (2 * product - (y * y).sum(-1)[:, None])

    wide = [each.astype(np.float64) for each in (x, y)]
    norms = [(each**2).sum(-1) for each in wide]
    exact = norms[0][..., None] + norms[1][:, None] - 2 * wide[0] @ wide[1].swapaxes(1, 2)
    reach = 2 * np.sqrt(norms[0])[..., None] + np.sqrt(np.maximum(exact, 0))
    units = np.abs(np.asarray(squares(x, y)) - exact) / (2.0**-24 * reach**2)
    assert 0.1 < units.max() < search_module.most_roundings(dim)


def test_one_large_coordinate_hides_no_neighbour():
    """The product drops the small coordinates that only the nearest row has."""
    rng, dim, each = np.random.default_rng(0), 1024, 40
    small = 0.01 * rng.choice([-1.0, 1.0], size=(QUERIES, dim))
    others = np.repeat(small, each, axis=0)
    others[:, np.arange(dim) % 8 < 4] = 0
    queries, rows = small + 2e-4 * rng.normal(size=small.shape), np.concatenate([small, others])
    queries[:, 0] = rows[:, 0] = 100
    queries, rows = queries.astype(np.float32), rng.permutation(rows).astype(np.float32)
    ring, _ = latent_ring.add(latent_ring.init(len(rows), dim), jnp.asarray(rows))
    found = knn.kth_distance(jnp.asarray(queries), ring, k=1)
    np.testing.assert_allclose(found, cdist(queries, rows).min(axis=1), rtol=2e-4)


@pytest.mark.parametrize("size", [1e15, 1e18])
def test_rows_that_are_not_finite_leave_large_ones_alone(size):
    rng = np.random.default_rng(0)
    latents = (size * (1 + 0.3 * rng.normal(size=(2_000, 64)))).astype(np.float32)
    queries = latents[:32] + (0.01 * size * rng.normal(size=(32, 64))).astype(np.float32)
    broken = rng.permutation(2_000)[:400]
    ring, _ = latent_ring.add(
        latent_ring.init(2_000, 64), jnp.asarray(latents).at[broken].set(np.nan)
    )
    found = knn.nearest_distances(jnp.asarray(queries), ring, k=K)
    finite = np.delete(latents, broken, axis=0)
    np.testing.assert_allclose(found, np.sort(cdist(queries, finite), axis=1)[:, :K], rtol=1e-5)


def test_copies_of_an_observation_in_a_dense_cluster_count_as_nearest(found):
    """Their latents differ by rounding, and rows of other observations are nearer."""
    latents = clusters(1, 2e-4, seed=5)
    own_row = np.arange(QUERIES)
    prints = np.arange(ROWS, dtype=np.uint32)
    copies = ROWS - 1 - np.arange(QUERIES)
    rng = np.random.default_rng(6)
    offsets = rng.normal(size=(QUERIES, DIM))
    shares = 0.9 * fingerprint.COPY_TOLERANCE * np.linalg.norm(latents[own_row], axis=1)
    offsets *= (shares / np.linalg.norm(offsets, axis=1))[:, None]
    latents[copies] = latents[own_row] + offsets
    prints[copies] = prints[own_row]
    wanted = expected(latents, own_row, prints)
    assert (wanted[:, 0] == 0).all()
    nearer = expected(latents, own_row)[:, -1] < shares
    assert nearer.mean() > 0.9
    distances, _ = found(latents, own_row, prints)
    np.testing.assert_allclose(distances, wanted, rtol=2e-4, atol=1e-9)


@pytest.mark.parametrize("num_queries", [1, 8, 16, 32])
def test_searching_around_a_query_does_not_move_the_whole_ring(num_queries):
    """A second array as large as the ring would double the memory of a run."""
    ring = jax.eval_shape(lambda: latent_ring.init(200_000, DIM))
    queries = jax.ShapeDtypeStruct((num_queries, DIM), jnp.float32)
    search = jax.jit(lambda queries, ring: knn.mean_distance(queries, ring, k=K, first=K))
    memory = search.lower(queries, ring).compile().memory_analysis()
    assert memory.temp_size_in_bytes < ring.latents.size * 4 / 5
