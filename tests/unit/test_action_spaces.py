"""Uniformly random actions: all that a space has, and nothing else."""

import jax
import numpy as np

from re3_jax.envs.base import Box, Discrete

COUNT = 20_000


def test_a_box_is_sampled_from_bound_to_bound():
    drawn = np.asarray(Box((2,), -1.0, 3.0).sample(jax.random.key(0), COUNT))
    assert drawn.shape == (COUNT, 2) and drawn.dtype == np.float32
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    assert np.all((-1 <= low) & (low < -0.99)) and np.all((2.99 < high) & (high <= 3))
    np.testing.assert_allclose(drawn.mean(axis=0), 1, atol=0.05)
    # Coordinates are drawn apart.
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.05


def test_every_discrete_action_is_as_likely_as_the_others():
    drawn = np.asarray(Discrete(5).sample(jax.random.key(0), COUNT))
    assert drawn.shape == (COUNT,) and drawn.dtype == np.int32
    actions, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(actions, [0, 1, 2, 3, 4])
    np.testing.assert_allclose(counts / COUNT, 1 / 5, atol=0.02)
