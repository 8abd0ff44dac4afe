"""Common mistakes of k-NN bonuses, one row each on a hand-made ring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import knn
from re3_jax.replay import distinct_ring, latent_ring

kth = jax.jit(knn.kth_distance, static_argnames="k")
mean = jax.jit(knn.mean_distance, static_argnames=("k", "first"))
nearest = jax.jit(knn.nearest_distances, static_argnames="k")


def line(*places, capacity=8):
    """A ring of points on the first axis of the plane."""
    rows = np.stack([np.asarray(places, np.float32), np.zeros(len(places), np.float32)], axis=1)
    return latent_ring.add(latent_ring.init(capacity, 2), rows)[0]


def at(*places):
    return jnp.stack([jnp.asarray(places, jnp.float32), jnp.zeros(len(places))], axis=1)


OWN = jnp.array([1])
ROWS = (0.0, 3.0, 4.0, 13.0)  # a query at row 1 has its neighbours at 0 (itself), 1, 3, 10

CASES = {
    "itself counted only when asked": (kth, dict(k=1, exclude=OWN), 1.0),
    "itself is the first when counted": (kth, dict(k=1), 0.0),
    "k counts from 1": (kth, dict(k=2), 1.0),
    "a distance, not its square": (kth, dict(k=3), 3.0),
    "a distance, not a row": (kth, dict(k=2, exclude=OWN), 3.0),
    "unwritten rows (at the origin) are no neighbours": (kth, dict(k=4), 10.0),
    "short of neighbours: the furthest": (kth, dict(k=6), 10.0),
    "short of neighbours, itself left out": (kth, dict(k=4, exclude=OWN), 10.0),
    "both ranks of a mean count": (mean, dict(k=3, first=2), 2.0),
    "a mean of distances, not of squares": (mean, dict(k=4, first=2), 14 / 3),
    "a mean without itself": (mean, dict(k=2, exclude=OWN), 2.0),
    "a mean over those that exist": (mean, dict(k=7, first=3), 6.5),
    "no rank of the mean exists": (mean, dict(k=7, first=6), 10.0),
}


@pytest.mark.parametrize("name", CASES)
def test_mistake(name):
    distance, arguments, expected = CASES[name]
    assert distance(at(3.0), line(*ROWS), **arguments)[0] == pytest.approx(expected)


@pytest.mark.parametrize("exclude", [None, jnp.array([0, -1])])
def test_an_empty_ring_gives_zero(exclude):
    ring = latent_ring.init(5, 2)
    for value in (
        kth(at(3.0, 4.0), ring, k=2, exclude=exclude),
        mean(at(3.0, 4.0), ring, k=3, exclude=exclude),
    ):
        np.testing.assert_array_equal(value, 0.0)


def test_no_queries_have_no_distances():
    ring, _ = latent_ring.add(latent_ring.init(5, 2), at(3.0, 4.0))
    nothing = jnp.zeros((0, 2))
    assert knn.nearest_distances(nothing, ring, k=2).shape == (0, 2)
    assert kth(nothing, ring, k=1).shape == (0,)
    distinct, index = distinct_ring.add(distinct_ring.init(5, 2), nothing)
    assert index.shape == (0,) and distinct.num_valid == 0


def test_a_copy_in_another_row_is_a_neighbour():
    ring = line(3.0, 3.0, 9.0)
    assert kth(at(3.0), ring, k=1, exclude=OWN)[0] == 0.0
    assert kth(at(3.0), ring, k=2, exclude=OWN)[0] == 6.0


def test_minus_one_excludes_no_row():
    distance = kth(at(3.0, 3.0), line(*ROWS), k=1, exclude=jnp.array([-1, 1]))
    np.testing.assert_array_equal(distance, [0.0, 1.0])


def test_overwritten_rows_are_gone_and_the_fill_level_stays():
    ring = line(0.0, 1.0, 2.0, capacity=4)
    ring, written = latent_ring.add(ring, at(100.0, 101.0, 102.0))
    np.testing.assert_array_equal(written, [3, 0, 1])
    np.testing.assert_array_equal(ring.latents[:, 0], [101.0, 102.0, 2.0, 100.0])
    assert (int(ring.cursor), int(ring.num_valid)) == (2, 4)
    np.testing.assert_allclose(nearest(at(0.0), ring, k=4)[0], [2.0, 100.0, 101.0, 102.0])


def test_garbage_in_unwritten_rows_is_not_found():
    ring = line(*ROWS)
    garbage = ring.latents.at[4:].set(3.0)
    ring = ring._replace(latents=garbage, squared_norms=jnp.sum(garbage**2, axis=1))
    assert kth(at(3.0), ring, k=2)[0] == 1.0


@pytest.mark.parametrize(
    "call, remedy",
    [
        (lambda q, r: knn.kth_distance(q, r, k=0), "choose k between 1 and the capacity"),
        (lambda q, r: knn.kth_distance(q, r, k=9), "choose k between 1 and the capacity"),
        (lambda q, r: knn.nearest_distances(q, r, k=-1), "choose k between 1"),
        (lambda q, r: knn.mean_distance(q, r, k=2, first=0), "ranks count from 1"),
        (lambda q, r: knn.mean_distance(q, r, k=2, first=3), "ranks count from 1"),
        (lambda q, r: knn.mean_distance(q, r, k=9), "choose k between 1"),
        (lambda q, r: knn.kth_distance(q[:, :1], r, k=1), r"\(batch, 2\)"),
        (lambda q, r: knn.kth_distance(q, r, k=1, exclude=jnp.arange(3)), "one row index"),
        (lambda q, r: latent_ring.init(0, 4), "at least 1"),
        (lambda q, r: latent_ring.add(r, jnp.zeros((9, 2))), "as large as one rollout"),
    ],
)
def test_misuse_is_one_sentence(call, remedy):
    with pytest.raises(ValueError, match=remedy):
        call(at(1.0), line(*ROWS))


def test_no_gradient_and_no_nan_from_a_distance_of_zero():
    def total(queries):
        return jnp.sum(knn.mean_distance(queries, line(*ROWS), k=2))

    np.testing.assert_array_equal(jax.jit(jax.grad(total))(at(3.0, 7.0)), 0.0)


def test_a_mask_is_no_row_to_exclude():
    with pytest.raises(ValueError, match="exclude has the dtype bool, but row indices"):
        knn.kth_distance(at(3.0), line(*ROWS), k=1, exclude=jnp.array([True]))
