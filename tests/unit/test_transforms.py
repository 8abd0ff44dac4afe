"""Reward transforms, and mistakes that other implementations of RE3 make in them."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from re3_jax import running_stats
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import IntrinsicBatch, IntrinsicReward, chain

STEP = jnp.int32(0)
DISTANCES = jnp.array([0.0, 0.5, 1.0, 4.0])


def apply(transform, *rewards, agent_steps=STEP):
    """Transforms several batches and returns the last."""
    state = transform.init()
    for reward in rewards:
        out, state = transform.apply(state, reward, agent_steps)
    return np.asarray(out)


def given_rewards(rewards):
    """A bonus that returns given rewards, for transforms to act on."""
    return IntrinsicReward(
        init=lambda key, spec, num_lanes: (),
        observe=lambda state, step: (state, None),
        reward=lambda state, batch: (rewards, state, {}),
        update=lambda state, batch, key: (state, {}),
    )


def test_a_batch_enters_the_statistics_before_it_is_divided():
    first, second = DISTANCES, 3.0 * DISTANCES
    out = apply(transforms.normalize_by_running_std(), first, second)
    both = np.concatenate([first, second]).astype(np.float64)
    np.testing.assert_allclose(out, second / both.std(), rtol=1e-6)
    np.testing.assert_allclose(
        apply(transforms.normalize_by_running_std(), first), first / np.std(first), rtol=1e-6
    )


def test_released_variant_divides_by_the_released_std():
    state = running_stats.init_released()
    for batch in (DISTANCES, 2.0 * DISTANCES):
        state = running_stats.update_released(state, batch)
    out = apply(transforms.normalize_by_running_std("released"), DISTANCES, 2.0 * DISTANCES)
    np.testing.assert_allclose(out, 2.0 * DISTANCES / running_stats.std(state), rtol=1e-6)


def test_the_std_and_not_the_mean_divides():
    """Rewards further from 0 with the same standard deviation are divided by the same number."""
    near = apply(transforms.normalize_by_running_std(), DISTANCES)
    far = apply(transforms.normalize_by_running_std(), DISTANCES + 10.0)
    np.testing.assert_allclose(far - far[0], near, rtol=1e-5)


def test_no_mean_is_subtracted():
    out = apply(transforms.normalize_by_running_std(), DISTANCES)
    assert out[0] == 0.0
    assert out.min() >= 0.0


@pytest.mark.parametrize("value", [0.0, 0.3])
def test_equal_rewards_are_not_divided(value):
    rewards = jnp.full(8, value)
    out = apply(transforms.normalize_by_running_std(), rewards, rewards)
    np.testing.assert_array_equal(out, rewards)


def test_log1p_is_the_papers_equation():
    np.testing.assert_allclose(apply(transforms.log1p(), DISTANCES), np.log(DISTANCES + 1))


def test_the_logarithm_follows_the_normalisation():
    """log(1 + d / std), not log(1 + d) / std."""
    bonus = chain(
        given_rewards(DISTANCES), transforms.normalize_by_running_std(), transforms.log1p()
    )
    batch = IntrinsicBatch(None, None, None, None, STEP)
    reward, _, _ = bonus.reward(bonus.init(None, None), batch)
    std = np.std(DISTANCES)
    np.testing.assert_allclose(reward, np.log1p(DISTANCES / std), rtol=1e-6)
    assert not np.allclose(reward, np.log1p(DISTANCES) / np.std(np.log1p(DISTANCES)), rtol=0.05)


def test_the_schedule_counts_agent_steps():
    schedule = optax.linear_schedule(2.0, 0.0, 100)
    out = apply(transforms.scale_by_schedule(schedule), DISTANCES, agent_steps=jnp.int32(25))
    np.testing.assert_allclose(out, 1.5 * DISTANCES)


def test_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="unknown running std 'welford'"):
        transforms.normalize_by_running_std("welford")


def test_a_chain_reports_what_its_bonus_and_its_transforms_do():
    """Beta at the batch's step, the standard deviation divided by, and the bonus's own values."""
    bonus = chain(
        given_rewards(DISTANCES)._replace(
            reward=lambda state, batch: (DISTANCES, state, {"nearest": jnp.float32(7)})
        ),
        transforms.normalize_by_running_std(),
        transforms.log1p(),
        transforms.scale_by_schedule(optax.linear_schedule(2.0, 0.0, 100)),
    )
    batch = IntrinsicBatch(None, None, None, None, jnp.int32(25))
    _, _, info = bonus.reward(bonus.init(None, None), batch)
    expected = {"nearest": 7.0, "running_std": np.std(DISTANCES), "beta": 1.5}
    assert info.keys() == expected.keys()
    for name, value in expected.items():
        assert info[name].dtype == jnp.float32
        np.testing.assert_allclose(info[name], value, rtol=1e-6)
