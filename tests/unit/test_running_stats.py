"""Running statistics: cases with known results, and the released recursion."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import running_stats
from tests.torch_oracle.running_std import ReleasedStd

update = jax.jit(running_stats.update)
update_released = jax.jit(running_stats.update_released, static_argnames="unbiased")


def test_without_values_the_std_is_0():
    assert running_stats.std(running_stats.init()) == 0.0


def test_small_example_by_hand():
    stats = update(running_stats.init(), jnp.array([1.0, 2.0, 3.0, 4.0]))
    stats = update(stats, jnp.array([10.0, 10.0]))
    assert stats.mean == pytest.approx(5.0)
    assert stats.variance == pytest.approx((16 + 9 + 4 + 1 + 25 + 25) / 6)
    assert stats.num_values == 6.0


@pytest.mark.parametrize("value", [0.1, 1e-7, 12345.678])
def test_equal_values_have_exactly_zero_std(value):
    stats = running_stats.init()
    for _ in range(3):
        stats = update(stats, jnp.full(100, value))
    assert stats.variance == 0.0
    assert stats.mean == jnp.float32(value)


def test_a_small_std_far_from_zero_is_accurate():
    values = np.float32(1000.0) + np.random.default_rng(0).normal(0, 0.1, (50, 128))
    stats = running_stats.init()
    for batch in values.astype(np.float32):
        stats = update(stats, batch)
    expected = values.astype(np.float32).astype(np.float64).std()
    assert running_stats.std(stats) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("size", "ddof"), [(2, 1), (128, 1), (1, 0), (2, 0), (128, 0)])
def test_released_equals_the_authors_recursion(size, ddof):
    batches = np.random.default_rng(1).gamma(2.0, 0.3, (40, size)).astype(np.float32)
    stats, theirs = running_stats.init_released(), ReleasedStd(ddof)
    for batch in batches:
        stats = update_released(stats, batch, unbiased=ddof == 1)
        std = theirs(batch)
        np.testing.assert_allclose(stats, (theirs.mean, theirs.variance, theirs.count), rtol=2e-5)
        assert running_stats.std(stats) == pytest.approx(std, rel=2e-5)


def test_released_by_hand():
    stats = update_released(running_stats.init_released(), jnp.array([1.0, 3.0]))
    assert stats.mean == pytest.approx(2.0 + 2.0 / 2.0001)
    spread = 1e-4 + 2.0 * 2 + 4.0 * 1e-4 * 2 / 2.0001
    assert stats.variance == pytest.approx(spread / 2.0001, rel=1e-6)


def test_released_is_inflated_for_hundreds_of_updates():
    """Distances ~ N(0.5, 0.1): the exact std is 0.1 from the start, the released one is not."""
    batches = jnp.asarray(0.5 + 0.1 * np.random.default_rng(2).normal(size=(1000, 128)))

    @jax.jit
    def stds(batches):
        def step(stats, batch):
            exact, released = stats
            exact = running_stats.update(exact, batch)
            released = running_stats.update_released(released, batch)
            return (exact, released), (running_stats.std(exact), running_stats.std(released))

        start = (running_stats.init(), running_stats.init_released())
        return jax.lax.scan(step, start, batches.astype(jnp.float32))[1]

    exact, released = stds(batches)
    np.testing.assert_allclose(exact[1:], 0.1, rtol=0.1)
    table = {1: 0.101, 2: 0.51, 3: 0.48, 5: 0.41, 10: 0.32, 30: 0.21, 100: 0.14, 1000: 0.105}
    for number, expected in table.items():
        tolerance = 0.12 if number == 1 else 0.03
        assert released[number - 1] == pytest.approx(expected, rel=tolerance), number


def test_released_refuses_single_values():
    with pytest.raises(ValueError, match="at least 2 rewards per batch"):
        running_stats.update_released(running_stats.init_released(), jnp.ones(1))


def test_many_values_neither_overflow_nor_stop():
    """Past 2^31 values, where an int32 count would be negative."""
    stats = running_stats.RunningStats(jnp.zeros(()), jnp.ones(()), jnp.float32(3e9))
    after = update(stats, jnp.full(128, 2.0))
    assert math.isfinite(after.variance)
    assert after.num_values == running_stats.MOST_BATCHES * 128
    assert 0.0 < after.mean < 1e-5


def test_a_batch_far_smaller_than_those_before_weighs_no_more_than_its_limit():
    stats = running_stats.RunningStats(jnp.zeros(()), jnp.ones(()), jnp.float32(1e7))
    after, share = update(stats, jnp.full(1, 100.0)), 1 / running_stats.MOST_BATCHES
    assert float(after.mean) == pytest.approx(100 * share)
    assert float(after.variance) == pytest.approx(1 - share + 100**2 * share * (1 - share))


def test_the_oldest_of_very_many_batches_fade():
    """As if 10^8 zeros had come one at a time, then ones: were all counted, the mean were 0.01."""
    stats = running_stats.RunningStats(jnp.zeros(()), jnp.zeros(()), jnp.float32(1e8))
    after, _ = jax.lax.scan(lambda s, one: (update(s, one), None), stats, jnp.ones((1_000_000, 1)))
    share = 1 - math.exp(-1_000_000 / running_stats.MOST_BATCHES)
    assert float(after.mean) == pytest.approx(share, rel=0.01)
    assert float(after.variance) == pytest.approx(share * (1 - share), rel=0.02)
