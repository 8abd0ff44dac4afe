"""E3B's rank-1 updates: counts for one-hot features, and float32 over a long episode."""

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.intrinsic.e3b import elliptical


def bonuses(features, ridge):
    """Of one episode of one lane; [time, latent] -> [time], and the last inverse."""
    inverse = jnp.eye(features.shape[1])[None] / ridge

    @jax.jit
    def run(inverse, features):
        def step(inverse, row):
            bonus, inverse = elliptical(inverse, row[None])
            return inverse, bonus[0]

        return jax.lax.scan(step, inverse, features)

    last, paid = run(inverse, jnp.asarray(features))
    return np.asarray(paid), np.asarray(last)[0]


def test_one_hot_features_are_counted():
    """1 / (n + lambda) after n visits."""
    place = np.random.default_rng(0).integers(0, 4, 200)
    before = np.array([(place[:t] == place[t]).sum() for t in range(200)])
    paid, _ = bonuses(np.eye(4, dtype=np.float32)[place], 0.1)
    np.testing.assert_allclose(paid, 1 / (before + 0.1), rtol=1e-4)


def test_a_long_episode_in_a_few_directions_stays_accurate():
    """1,000 steps among eight features of length 64, against double precision.

    The inverse holds numbers as large as 1 / lambda in float32, so errors are a share of
    |phi|^2 / lambda, the bonus of something new; no bonus is negative.
    """
    rng = np.random.default_rng(0)
    known = rng.normal(size=(8, 64)).astype(np.float32)
    features = known[rng.integers(0, 8, 1_000)]
    paid, last = bonuses(features, 0.1)
    covariance, expected = 0.1 * np.eye(64), []
    for row in features.astype(np.float64):
        expected.append(row @ np.linalg.solve(covariance, row))
        covariance += np.outer(row, row)
    assert paid.min() >= 0
    largest = np.square(known).sum(axis=1).max() / 0.1
    np.testing.assert_allclose(paid, expected, rtol=1e-3, atol=5e-6 * largest)
    np.testing.assert_allclose(last, np.linalg.inv(covariance), atol=2e-3)
    # A direction that the episode never showed is as new as at its beginning.
    new = np.linalg.svd(known.astype(np.float64))[2][-1]
    np.testing.assert_allclose(new @ last @ new, 10.0, rtol=1e-3)
