"""Gaussians against torch.distributions and numerical integration."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from scipy.integrate import quad

from re3_jax import distributions


def test_sample_and_density_equal_torch():
    rng = np.random.default_rng(0)
    mean, log_std, noise = rng.normal(size=(3, 64, 4)).astype(np.float32)
    action, log_probability = distributions.tanh_gaussian(mean, log_std, noise)
    normal = torch.distributions.Normal(torch.tensor(mean), torch.tensor(log_std).exp())
    squash = torch.distributions.TanhTransform(cache_size=1)
    policy = torch.distributions.TransformedDistribution(normal, [squash])
    expected = squash(normal.mean + normal.stddev * torch.tensor(noise))
    np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-6)
    expected = policy.log_prob(expected).sum(-1)
    np.testing.assert_allclose(log_probability, expected, rtol=1e-4, atol=1e-4)


def test_a_gaussians_sample_and_mode_equal_torch():
    mean, key = np.random.default_rng(1).normal(size=(64, 2)).astype(np.float32), jax.random.key(4)
    log_std = np.array([-1.0, 0.7], np.float32)
    ours = distributions.Gaussian(mean, log_std)
    normal = torch.distributions.Normal(torch.tensor(mean), torch.tensor(log_std).exp())
    noise = torch.tensor(np.array(jax.random.normal(key, mean.shape)))
    expected = normal.loc + normal.scale * noise
    np.testing.assert_allclose(ours.sample(key), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ours.mode(), normal.mode)


def test_density_integrates_to_one():
    for mean, log_std in ((0.0, 0.0), (1.3, -0.7), (-0.5, 0.6)):

        def density(action, mean=mean, log_std=log_std):
            noise = (np.arctanh(action) - mean) / np.exp(log_std)
            arguments = (jnp.array([x], jnp.float32) for x in (mean, log_std, noise))
            return float(jnp.exp(distributions.tanh_gaussian(*arguments)[1]))

        total, _ = quad(density, -1, 1, epsabs=1e-4, limit=100)
        np.testing.assert_allclose(total, 1.0, atol=1e-3)


def test_log_det_is_the_derivative_of_tanh_and_finite_far_out():
    u = jnp.linspace(-4, 4, 41)
    slope = jax.vmap(jax.grad(jnp.tanh))(u)
    np.testing.assert_allclose(distributions.tanh_log_det(u), jnp.log(slope), rtol=1e-4, atol=1e-5)
    far = jnp.array([-80.0, -20.0, 20.0, 80.0])
    # There it equals log(4 exp(-2|u|)).
    expected = np.log(4.0) - 2 * np.abs(far)
    np.testing.assert_allclose(distributions.tanh_log_det(far), expected, rtol=1e-5)
    gradient = jax.vmap(jax.grad(distributions.tanh_log_det))(far)
    np.testing.assert_allclose(gradient, -2 * np.sign(far), rtol=1e-5)


def test_log_std_covers_its_bounds_and_nothing_beyond():
    raw = jnp.array([-jnp.inf, -100.0, 0.0, 100.0, jnp.inf])
    np.testing.assert_allclose(distributions.squash_log_std(raw, -10, 2), [-10, -10, -4, 2, 2])
