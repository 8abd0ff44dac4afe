"""beta_t: the paper's decay, reference values, long runs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from re3_jax import schedules


@pytest.mark.parametrize(
    ("beta", "rho", "values"),
    [
        (0.05, 1e-5, [0.0500, 0.0303, 0.0184, 0.0143, 0.0041]),
        (0.25, 1e-5, [0.250, 0.152, 0.092, 0.072, 0.0205]),
        (0.05, 2.5e-5, [0.0500, 0.0143, 0.0041, 0.0022, 0.0001]),
    ],
)
def test_values_of_the_papers_settings(beta, rho, values):
    schedule = schedules.exponential_decay(beta, rho)
    for agent_steps, expected in zip([0, 50_000, 100_000, 125_000, 250_000], values, strict=True):
        digits = 4 if beta == 0.05 or agent_steps == 250_000 else 3
        assert schedule(jnp.int32(agent_steps)) == pytest.approx(expected, abs=0.6 * 10**-digits)


@pytest.mark.parametrize("rho", [1e-10, 1e-7, 1e-5, 2.5e-5, 1e-3, 0.5])
def test_long_runs_equal_double_precision(rho):
    agent_steps = np.array([0, 1, 7, 1000, 10**6, 10**8, 2**31 - 1], np.int32)
    ours = jax.jit(jax.vmap(schedules.exponential_decay(0.25, rho)))(agent_steps)
    exact = 0.25 * np.exp(agent_steps.astype(np.float64) * np.log1p(-rho))
    np.testing.assert_allclose(ours, exact, rtol=2e-5, atol=1e-37)


def test_steps_that_went_past_int32_count_as_the_most():
    schedule = schedules.exponential_decay(0.25, 1e-10)
    most = np.iinfo(np.int32).max
    after = jnp.int32(most) + jnp.int32(3)
    assert after < 0 and schedule(after) == schedule(jnp.int32(most)) < 0.25


def test_no_decay_is_constant():
    schedule = schedules.exponential_decay(0.1, 0.0)
    for agent_steps in (0, 2**31 - 1):
        value = schedule(jnp.int32(agent_steps))
        assert value == jnp.float32(0.1)
        assert value.dtype == jnp.float32


def test_usable_as_an_optax_schedule():
    transform = optax.scale_by_schedule(schedules.exponential_decay(0.5, 0.1))
    state = transform.init(jnp.ones(()))
    for step in range(3):
        scaled, state = transform.update(jnp.ones(()), state)
        assert scaled == pytest.approx(0.5 * 0.9**step)


@pytest.mark.parametrize("rho", [-0.1, 1.0, float("nan")])
def test_rho_out_of_range_is_refused(rho):
    with pytest.raises(ValueError, match="rho must be at least 0 and below 1"):
        schedules.exponential_decay(0.1, rho)


@pytest.mark.parametrize("beta", [float("inf"), float("nan"), 1e39, -1e39])
def test_a_beta_that_float32_lacks_is_refused(beta):
    with pytest.raises(ValueError, match="beta must be a finite 32-bit number"):
        schedules.exponential_decay(beta, 0.1)
