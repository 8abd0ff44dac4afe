"""Return estimators against their definitions as sums."""

import numpy as np
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax.distributions import Categorical
from re3_jax.returns import generalized_advantage


def by_definition(reward, value, next_value, done, discount, gae_lambda):
    """A_t = sum_l (gamma lambda)^l delta_{t+l}, cut after the step that ends the episode."""
    steps, lanes = reward.shape
    delta = reward + discount * next_value - value
    advantage = np.zeros((steps, lanes))
    for lane in range(lanes):
        for t in range(steps):
            weight = 1.0
            for later in range(t, steps):
                advantage[t, lane] += weight * delta[later, lane]
                if done[later, lane]:
                    break
                weight *= discount * gae_lambda
    return advantage


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    discount=st.floats(0, 1),
    gae_lambda=st.floats(0, 1),
    ends=st.floats(0, 1),
    steps=st.sampled_from([6, 37]),
)
def test_gae_equals_its_definition(seed, discount, gae_lambda, ends, steps):
    """Rollouts of more steps than one turn of the loop makes, too."""
    rng = np.random.default_rng(seed)
    reward, value, next_value = rng.normal(size=(3, steps, 4))
    done = rng.random((steps, 4)) < ends
    next_value = np.where(done, 0, next_value)
    ours = generalized_advantage(
        *(np.float32(x) for x in (reward, value, next_value)), done, discount, gae_lambda
    )
    expected = by_definition(reward, value, next_value, done, discount, gae_lambda)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


def test_gae_with_lambda_one_is_the_discounted_return_minus_the_value():
    reward = np.float32([[1.0], [2.0], [4.0]])
    value = np.float32([[10.0], [20.0], [30.0]])
    next_value = np.float32([[20.0], [30.0], [8.0]])
    done = np.zeros((3, 1), bool)
    advantage = generalized_advantage(reward, value, next_value, done, 0.5, 1.0)
    # 1 + 2/2 + 4/4 + 8/8 = 4; 2 + 4/2 + 8/4 = 6; 4 + 8/2 = 8.
    np.testing.assert_allclose(advantage[:, 0], [4 - 10, 6 - 20, 8 - 30])


def test_entropy_equals_scipy():
    logits = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32) * 3
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        Categorical(logits).entropy(), scipy.stats.entropy(probability, axis=1), rtol=1e-5
    )
