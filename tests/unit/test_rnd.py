"""RND: fixed target, trained predictor, rewarded observation, whitening."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import random_encoder, whitening
from re3_jax.intrinsic.rnd import RNDConfig, rnd
from tests.equal import equal_arrays
from tests.prediction_tasks import SIZES, TASKS, make_batch, start

BONUS = rnd(RNDConfig(**SIZES, learning_rate=3e-3))


def test_the_predictor_is_trained_and_the_target_is_not():
    state = start("rnd", "joints")
    after, _ = jax.jit(BONUS.update)(state, make_batch("joints"), jax.random.key(1))
    jax.tree.map(equal_arrays, after.target, state.target)
    moved = jax.tree.map(lambda a, b: abs(a - b).max(), after.predictor, state.predictor)
    assert min(jax.tree.leaves(moved)) > 0


def test_the_networks_are_drawn_apart():
    state = start("rnd", "views")
    encoders = state.target, state.predictor.encoder
    for ours, theirs in zip(*(jax.tree.leaves(encoder) for encoder in encoders), strict=True):
        assert ours.ndim == 1 or abs(ours - theirs).mean() > 1e-3, "biases begin at 0"
    other = BONUS.init(jax.random.key(1), TASKS["views"])
    assert abs(other.target[0].kernel - state.target[0].kernel).max() > 1e-3


@pytest.mark.parametrize("rewarded", ["current", "next"])
def test_only_the_rewarded_observation_counts_in_reward_and_in_training(rewarded):
    bonus = rnd(RNDConfig(**SIZES, rewarded=rewarded))
    state = start("rnd", "joints")
    batch, other = make_batch("joints"), make_batch("joints", seed=1)
    ignored = "next_observation" if rewarded == "current" else "observation"
    counts = "observation" if rewarded == "current" else "next_observation"
    rest = other._replace(**{counts: getattr(batch, counts)})
    update, reward = jax.jit(bonus.update), jax.jit(bonus.reward)
    after, after_rest = (update(state, b, jax.random.key(0))[0] for b in (batch, rest))
    jax.tree.map(equal_arrays, after, after_rest)
    np.testing.assert_array_equal(reward(after, batch)[0], reward(after, rest)[0])
    changed = batch._replace(**{counts: getattr(other, counts)})
    assert getattr(changed, ignored) is getattr(batch, ignored)
    assert abs(reward(after, changed)[0] - reward(after, batch)[0]).min() > 0


def test_rewards_of_frequent_observations_fall_faster_than_of_rare_ones():
    """Updates until a tenth of the reward is left: about 14 and 50; the final rest is rounding."""
    common, rare = make_batch("joints", size=1), make_batch("joints", seed=1, size=1)
    often = jax.tree.map(
        lambda one, two: jnp.concatenate([jnp.repeat(one, 31, axis=0), two]) if one.ndim else one,
        common,
        rare,
    )
    state = start("rnd", "joints")

    @jax.jit
    def rewards_by_time(state):
        def step(state, key):
            return BONUS.update(state, often, key)[0], BONUS.reward(state, often)[0]

        return jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 150))[1]

    rewards = rewards_by_time(state)
    updates = jnp.sum(rewards > 0.1 * rewards[0], axis=0)
    assert 5 < 2 * updates[0] < updates[-1] < 100


def whitened(batches):
    """Whitens by the mean and standard deviation of all observations, in double precision."""
    everything = np.concatenate(batches).astype(np.float64)
    std = everything.std(axis=0)
    centred = batches[-1].astype(np.float64) - everything.mean(axis=0)
    return np.clip(centred / np.where(std > 0, std, 1.0), -5, 5)


@pytest.mark.parametrize("task", ["views", "pixels", "vectors"])
def test_whitening_equals_numpy(task):
    """One element is always equal and becomes 0; one is nearly always equal and is clipped."""
    batches = [np.array(make_batch(task, seed=s).observation) for s in range(4)]
    for batch in batches:
        batch.reshape(12, -1)[:, :2] = 3
    batches[-1].reshape(12, -1)[0, 1] = 5
    stats, update = whitening.init(TASKS[task]), jax.jit(whitening.update)
    for batch in batches:
        stats = update(stats, batch)
    ours = jax.jit(whitening.whiten)(stats, batches[-1])
    np.testing.assert_allclose(ours, whitened(batches), rtol=1e-4, atol=1e-4)
    flat = np.asarray(ours).reshape(12, -1)
    np.testing.assert_array_equal(flat[:, 0], np.zeros(12))
    assert flat[0, 1] == 5.0


@pytest.mark.parametrize("task", ["views", "pixels", "joints"])
def test_normalized_observations_reach_both_networks(task, monkeypatch):
    """As if whitened beforehand, by statistics that already include the batch."""
    # Whitened pixels are no bytes, and stand for images that were not divided by 255 yet.
    monkeypatch.setattr(random_encoder, "refuse_scaled_images", lambda params, images: None)
    normalizing = rnd(RNDConfig(**SIZES, normalize_observations=True))
    plain = rnd(RNDConfig(**SIZES))
    same = start("rnd", task)
    state = same._replace(seen=whitening.init(TASKS[task]))
    begun = jax.eval_shape(lambda key: normalizing.init(key, TASKS[task]), jax.random.key(0))
    assert jax.tree.structure(begun) == jax.tree.structure(state)
    rewards = [jax.jit(bonus.reward) for bonus in (normalizing, plain)]
    updates = [jax.jit(bonus.update) for bonus in (normalizing, plain)]
    batches, scale = [], 255.0 if task == "pixels" else 1.0
    for number in range(3):
        batch = make_batch(task, seed=number)
        batches.append(np.array(batch.observation))
        reward, state, _ = rewards[0](state, batch)
        by_hand = batch._replace(observation=jnp.asarray(whitened(batches) * scale, jnp.float32))
        expected, same, _ = rewards[1](same, by_hand)
        np.testing.assert_allclose(reward, expected, rtol=1e-3)
        if task == "joints":
            state, info = updates[0](state, batch, jax.random.key(0))
            same, expected_info = updates[1](same, by_hand, jax.random.key(0))
            np.testing.assert_allclose(info["rnd_loss"], expected_info["rnd_loss"], rtol=1e-3)


def test_the_next_observation_is_asked_for_where_it_is_rewarded():
    bonus, batch = rnd(RNDConfig(**SIZES, rewarded="next")), make_batch("joints")
    with pytest.raises(ValueError, match="needs next_observation of every step"):
        bonus.reward(start("rnd", "joints"), batch._replace(next_observation=None))


def test_an_unknown_observation_to_reward_is_refused():
    with pytest.raises(ValueError, match="unknown rewarded 'last': choose one of current, next"):
        RNDConfig(rewarded="last")
