"""E3B's rank-1 updates: counts for one-hot features, and float32 over a long episode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.intrinsic.e3b import elliptical


def bonuses(features, ridge):
    """Of one episode of one lane; [time, latent] -> [time], and the last inverse."""
    root = jnp.eye(features.shape[1])[None] / np.sqrt(ridge)

    @jax.jit
    def run(root, features):
        def step(root, row):
            bonus, root = elliptical(root, row[None])
            return root, bonus[0]

        return jax.lax.scan(step, root, features)

    last, paid = run(root, jnp.asarray(features))
    root = np.asarray(last, np.float64)[0]
    return np.asarray(paid), root @ root.T


def in_float64(features, ridge):
    """The bonuses by solving for each, and the last covariance."""
    covariance, expected = ridge * np.eye(features.shape[1]), []
    for row in features.astype(np.float64):
        expected.append(row @ np.linalg.solve(covariance, row))
        covariance += np.outer(row, row)
    return np.array(expected), covariance


def test_features_with_nan_are_not_remembered():
    features = np.random.default_rng(2).normal(size=(20, 3)).astype(np.float32)
    with_nan = features.copy()
    with_nan[7, 1] = np.nan
    paid, _ = bonuses(with_nan, 0.1)
    expected, _ = in_float64(np.delete(features, 7, axis=0), 0.1)
    assert np.isnan(paid[7])
    np.testing.assert_allclose(np.delete(paid, 7), expected, rtol=1e-4)


def test_one_hot_features_are_counted():
    """1 / (n + lambda) after n visits."""
    place = np.random.default_rng(0).integers(0, 4, 200)
    before = np.array([(place[:t] == place[t]).sum() for t in range(200)])
    paid, _ = bonuses(np.eye(4, dtype=np.float32)[place], 0.1)
    np.testing.assert_allclose(paid, 1 / (before + 0.1), rtol=1e-4)


def test_a_long_episode_in_a_few_directions_stays_accurate():
    """1,000 steps among eight features of length 64, against double precision.

    The inverse holds numbers as large as 1 / lambda, so errors are a share of |phi|^2 / lambda, the
    bonus of something new.
    """
    rng = np.random.default_rng(0)
    known = rng.normal(size=(8, 64)).astype(np.float32)
    features = known[rng.integers(0, 8, 1_000)]
    paid, last = bonuses(features, 0.1)
    expected, covariance = in_float64(features, 0.1)
    assert paid.min() >= 0
    largest = np.square(known).sum(axis=1).max() / 0.1
    np.testing.assert_allclose(paid, expected, rtol=1e-3, atol=5e-6 * largest)
    np.testing.assert_allclose(last, np.linalg.inv(covariance), atol=2e-3)
    # A direction that the episode never showed is as new as at its beginning.
    new = np.linalg.svd(known.astype(np.float64))[2][-1]
    np.testing.assert_allclose(new @ last @ new, 10.0, rtol=1e-3)


@pytest.mark.parametrize(("size", "error"), [(1.0, 5e-6), (100.0, 5e-4), (1e3, 5e-3)])
def test_large_features_stay_accurate(size, error):
    """Such as unscaled observations."""
    features = (size * np.random.default_rng(0).normal(size=(1_000, 50))).astype(np.float32)
    paid, _ = bonuses(features, 0.1)
    np.testing.assert_allclose(paid, in_float64(features, 0.1)[0], rtol=error)


def test_the_root_lasts_where_an_inverse_that_is_updated_itself_does_not():
    """Sherman and Morrison's formula in float32, which is why the root is kept."""

    def step(inverse, row):
        projected = jnp.matmul(inverse, row, precision="highest")
        bonus = row @ projected
        return inverse - jnp.outer(projected, projected) / (1 + bonus), bonus

    features = (300 * np.random.default_rng(0).normal(size=(128, 50))).astype(np.float32)
    start = jnp.eye(50) / 0.1
    updated, _ = jax.jit(lambda rows: jax.lax.scan(step, start, rows))(features)
    assert np.linalg.eigvalsh(np.nan_to_num(updated, nan=-1.0)).min() < 0
    paid, last = bonuses(features, 0.1)
    expected, covariance = in_float64(features, 0.1)
    np.testing.assert_allclose(paid, expected, rtol=2e-3)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(last), np.linalg.eigvalsh(np.linalg.inv(covariance)), rtol=2e-3
    )
