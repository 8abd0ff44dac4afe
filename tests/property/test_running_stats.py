"""Merging batches gives the statistics of all values, however the stream is split."""

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax import running_stats

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
