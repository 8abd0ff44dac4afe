"""RE3 of a batch of sequences against PyTorch's encoder, scikit-learn's neighbours and NumPy."""

import dataclasses
from functools import partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from re3_jax.agents.dreamer.config import SequenceNeighbours
from re3_jax.agents.dreamer.learner import reward_sequences
from re3_jax.agents.dreamer.re3 import encoder_from, sequence_re3
from re3_jax.intrinsic.base import Step
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.replay.sequence_ring import Sequences
from tests.parity.test_dreamer import SPEC, make_batch
from tests.torch_oracle import dreamer
from tests.torch_oracle.running_std import ReleasedStd
from tests.torch_oracle.weights import as_tensors, detached

DEPTH, BETA = 2, 0.1
CONFIG = RE3Config(
    first_neighbour=5,
    last_neighbour=5,
    count_self=True,
    beta=BETA,
    normalize="running_std",
    log1p=False,
    encoder_init="xavier",
    latent_dim=10,
    ring_size=100,
)
ORDERS = ("layer_norm_then_tanh", "tanh_then_layer_norm")


def flat(batch):
    return batch.frames.reshape(-1, *batch.frames.shape[2:])


def store_and_reward(bonus, state, batch):
    state, index = bonus.observe(state, Step(flat(batch)))
    index = index.reshape(batch.reward.shape)
    # A frame and its action follow each sequence; RE3 ignores them.
    onward = (jnp.concatenate([x, x[:, :1]], axis=1) for x in (batch.frames, batch.action))
    drawn = Sequences(*onward, batch.reward, batch.discount, index)
    return reward_sequences(bonus, state, drawn, jnp.int32(7), jax.random.key(0))


@pytest.mark.parametrize("neighbours", get_args(SequenceNeighbours))
@pytest.mark.parametrize("order", ORDERS)
def test_rewards_of_sequences(order, neighbours):
    """beta times the distance to the 5th neighbour (itself the 1st), over the running std."""
    bonus = sequence_re3(CONFIG, order, DEPTH, neighbours)
    state = jax.jit(bonus.init, static_argnums=1)(jax.random.key(0), SPEC)
    params = detached(as_tensors(state[0].encoder))
    rewarded = jax.jit(partial(store_and_reward, bonus))
    seen, stored = [], []
    for number in range(3):
        batch = make_batch(number)
        after, state, info = rewarded(state, batch)
        on_torch = dreamer.latents(params, torch.tensor(np.asarray(flat(batch))), order)
        latents = on_torch.numpy()
        stored.append(latents)
        among = np.concatenate(stored) if neighbours == "ring" else latents
        found = NearestNeighbors(n_neighbors=5).fit(among).kneighbors(latents)[0][:, 4]
        if neighbours == "stored_minibatch":
            np.testing.assert_allclose(dreamer.distances(on_torch, 5), found, rtol=1e-6)
        seen.append(found)
        expected = BETA * (found / np.std(seen)).reshape(batch.reward.shape)
        np.testing.assert_allclose(after.reward - batch.reward, expected, rtol=1e-4)
        np.testing.assert_allclose(info["running_std"], np.std(seen), rtol=1e-4)
        for name in ("frames", "action", "discount"):
            np.testing.assert_array_equal(getattr(after, name), getattr(batch, name))


def test_the_released_std_is_of_the_population_variance():
    """The authors' RMS in TensorFlow: batch variance over n, mean + delta + n / total."""
    config = dataclasses.replace(CONFIG, normalize="released_running_std", beta=1.0)
    bonus, bare = (
        sequence_re3(c, ORDERS[1], DEPTH)
        for c in (config, dataclasses.replace(config, normalize="none"))
    )
    states = [jax.jit(b.init, static_argnums=1)(jax.random.key(0), SPEC) for b in (bonus, bare)]
    programs = [jax.jit(partial(store_and_reward, b)) for b in (bonus, bare)]
    recursion, unbiased = ReleasedStd(ddof=0), ReleasedStd(ddof=1)
    for number in range(3):
        batch = make_batch(number)
        after, states[0], info = programs[0](states[0], batch)
        alone, states[1], _ = programs[1](states[1], batch)
        distances = np.asarray(alone.reward - batch.reward, np.float64).ravel()
        std = recursion(distances)
        np.testing.assert_allclose(info["running_std"], std, rtol=2e-5)
        assert abs(unbiased(distances) / std - 1) > 1e-3
        rewards = np.asarray(after.reward - batch.reward).ravel()
        np.testing.assert_allclose(rewards, distances / std, rtol=1e-4)


def test_an_ensemble_is_averaged():
    """The distance is the mean over the members' own distances."""
    config = dataclasses.replace(CONFIG, ensemble_size=2, normalize="none")
    encoder = encoder_from(config, ORDERS[0], DEPTH)
    bonus, batch = sequence_re3(config, ORDERS[0], DEPTH), make_batch()
    state = jax.jit(bonus.init, static_argnums=1)(jax.random.key(0), SPEC)
    after, _, _ = jax.jit(partial(store_and_reward, bonus))(state, batch)
    latents = np.asarray(jax.jit(encoder.encode)(state[0].encoder, flat(batch)))
    assert np.abs(latents[0] - latents[1]).max() > 0.1
    distances = [
        NearestNeighbors(n_neighbors=5).fit(member).kneighbors(member)[0][:, 4]
        for member in latents
    ]
    np.testing.assert_allclose(
        (after.reward - batch.reward).ravel(), BETA * np.mean(distances, axis=0), rtol=1e-3
    )


def test_a_batch_without_such_a_neighbour_is_refused():
    many = dataclasses.replace(CONFIG, first_neighbour=16, last_neighbour=16)
    bonus = sequence_re3(many, ORDERS[0], DEPTH)

    def run(key, batch):
        return store_and_reward(bonus, bonus.init(key, SPEC), batch)

    with pytest.raises(ValueError, match="has no neighbour of rank 16"):
        jax.eval_shape(run, jax.random.key(0), make_batch())
