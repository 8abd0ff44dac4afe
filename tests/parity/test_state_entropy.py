"""Eq. 1 against closed-form entropies, and against SciPy on scikit-learn's neighbours."""

import jax
import numpy as np
import pytest
from scipy import special, stats
from sklearn.neighbors import NearestNeighbors

from re3_jax import state_entropy

entropy = jax.jit(state_entropy.particle_entropy, static_argnames="k")
mean_log = jax.jit(state_entropy.mean_log_distance, static_argnames="k")
SAMPLES = 4000


def gaussian(rng):
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    samples = rng.multivariate_normal([5.0, -1.0], covariance, SAMPLES)
    # The variance of log p is q/2.
    return samples, stats.multivariate_normal([0, 0], covariance).entropy(), 1.0


def uniform(rng):
    return rng.uniform(-1.0, 3.0, (SAMPLES, 1)), np.log(4.0), 0.0


@pytest.mark.parametrize("draw", [gaussian, uniform])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_closed_form_entropy(draw, k):
    samples, truth, log_density_variance = draw(np.random.default_rng(3))
    estimate = float(entropy(samples.astype(np.float32), k=k))
    # Var[log d^q] = psi'(k) beyond that of log p; five standard errors, and k/N for the border
    # of the support, where a ball of neighbours is not full.
    error = np.sqrt((log_density_variance + special.polygamma(1, k)) / SAMPLES)
    assert abs(estimate - truth) < 5 * error + 2 * k / SAMPLES


@pytest.mark.parametrize("dim,k", [(1, 1), (3, 2), (50, 3)])
def test_all_constants_of_equation_1(dim, k):
    samples = np.random.default_rng(dim).normal(size=(300, dim)).astype(np.float32)
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(samples.astype(np.float64))
    distance = search.kneighbors()[0][:, -1]
    volume = np.pi ** (dim / 2) / special.gamma(dim / 2 + 1)
    expected = np.mean(np.log(300 * distance**dim * volume / k)) + np.log(k) - special.digamma(k)
    np.testing.assert_allclose(entropy(samples, k=k), expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(mean_log(samples, k=k), np.mean(np.log(distance)), atol=1e-5)


def test_equation_2_differs_by_a_constant_per_dimension():
    samples = np.random.default_rng(0).normal(size=(2, 300, 3)).astype(np.float32)
    full = [entropy(x, k=2) for x in (samples[0], 5 * samples[1])]
    simple = [3 * mean_log(x, k=2) for x in (samples[0], 5 * samples[1])]
    np.testing.assert_allclose(full[1] - full[0], simple[1] - simple[0], rtol=1e-5)


def test_repeated_samples_have_no_finite_entropy():
    samples = np.repeat(np.random.default_rng(0).normal(size=(100, 3)), 3, axis=0)
    assert entropy(samples.astype(np.float32), k=2) == -np.inf
    assert np.isfinite(entropy(samples.astype(np.float32), k=3))


@pytest.mark.parametrize("k", [0, 10])
def test_a_missing_neighbour_is_refused(k):
    with pytest.raises(ValueError, match="choose k between 1"):
        state_entropy.particle_entropy(np.zeros((10, 2), np.float32), k)
