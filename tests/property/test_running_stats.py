"""Merging batches gives the statistics of all values, however the stream is split."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax import running_stats
from tests.equal import equal_arrays

update = jax.jit(running_stats.update)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 7, 32]), min_size=1, max_size=12),
    offset=st.sampled_from([0.0, 1.0, -300.0, 1e4]),
    spread=st.sampled_from([1e-3, 0.5, 20.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_split_equals_numpy_on_the_whole(sizes, offset, spread, seed):
    values = offset + spread * np.random.default_rng(seed).normal(size=sum(sizes))
    values = values.astype(np.float32)
    stats = running_stats.init()
    for batch in np.split(values, np.cumsum(sizes)[:-1]):
        stats = update(stats, batch)
    whole = values.astype(np.float64)
    rounding = 4e-7 * abs(offset)
    np.testing.assert_allclose(stats.mean, whole.mean(), atol=1e-5 * spread + rounding)
    np.testing.assert_allclose(
        running_stats.std(stats), whole.std(), rtol=1e-4, atol=1e-6 * spread + rounding
    )
    assert stats.num_values == len(values)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("exact", [True, False])
def test_a_batch_that_is_not_finite_changes_nothing(bad, exact):
    """1e30 is a number, but its square is none."""
    if exact:
        stats, step = running_stats.init(), running_stats.update
    else:
        stats, step = running_stats.init_released(), running_stats.update_released
    values = jnp.asarray(np.random.default_rng(0).normal(size=(3, 16)), jnp.float32)
    before = step(stats, values[0])
    after = step(before, values[1].at[3].set(bad))
    jax.tree.map(equal_arrays, after, before)
    jax.tree.map(equal_arrays, step(after, values[2]), step(before, values[2]))
    assert np.isfinite(step(step(stats, jnp.full(16, bad)), values[0])).all()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_element_that_is_not_finite_leaves_the_others(place):
    values = np.random.default_rng(0).normal(10.0, size=(3, 16, 3)).astype(np.float32)
    bad = values.copy()
    bad[place, 5, 1] = np.nan
    good, found = running_stats.init((3,)), running_stats.init((3,))
    for batch, other in zip(values, bad, strict=True):
        good, found = update(good, batch), update(found, other)
    np.testing.assert_array_equal(found.mean[::2], good.mean[::2])
    np.testing.assert_array_equal(found.variance[::2], good.variance[::2])
    # The element has the moments of its other batches.
    rest = np.delete(values[:, :, 1], place, axis=0)
    np.testing.assert_allclose(found.mean[1], rest.mean(), rtol=1e-5)
    np.testing.assert_allclose(found.variance[1], rest.var(), rtol=1e-5)
