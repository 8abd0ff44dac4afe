"""State entropy among the newest latents only, against scikit-learn."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import Encoder, never_trained, state_entropy

DIM = 3
SPEC = EnvSpec("any:any", (DIM,), np.dtype(np.float32), Discrete(2), 10)
IDENTITY = Encoder(
    lambda key, spec: (), lambda state, observation: observation, lambda spec: DIM, never_trained
)


def config(**changes):
    options = {"first_neighbour": 2, "last_neighbour": 4, "count_self": False, "ring_size": 60}
    return RE3Config(**(options | changes))


def batch(places):
    nothing = jnp.zeros((len(places), DIM))
    return IntrinsicBatch(
        nothing, jnp.zeros(len(places), jnp.int32), nothing, jnp.asarray(places), jnp.int32(0)
    )


@functools.cache
def compiled(**changes):
    """Compiled init, observe and reward of a bonus."""
    bonus = state_entropy(config(**changes), IDENTITY)
    init = jax.jit(lambda: bonus.init(jax.random.key(0), SPEC))
    return init, jax.jit(bonus.observe), jax.jit(bonus.reward)


@pytest.mark.parametrize("merge_copies", [False, True])
@pytest.mark.parametrize("count", [20, 47, 60, 140])
def test_neighbours_are_the_newest_others(count, merge_copies):
    """Before the ring is full, when it has just filled, and after several rounds of overwriting."""
    init, observe, reward_of = compiled(search_size=25, merge_copies=merge_copies)
    # Coarse, so that latents repeat.
    rows = np.random.default_rng(0).integers(0, 3, (count, DIM)).astype(np.float32)
    state, places = init(), []
    for i in range(0, count, 10):
        state, index = observe(state, Step(jnp.asarray(rows[i : i + 10])))
        places += np.asarray(index).tolist()
    kept = np.arange(max(0, count - 60), count)
    newest = np.arange(max(0, count - 25), count)
    ours, _, _ = reward_of(state, batch([places[i] for i in kept]))
    for i, reward in zip(kept, ours, strict=True):
        others = rows[newest[newest != i]]
        distance, _ = NearestNeighbors(n_neighbors=4).fit(others).kneighbors(rows[i : i + 1])
        np.testing.assert_allclose(reward, distance[0, 1:4].mean(), rtol=1e-4, atol=1e-6)


def test_a_search_size_of_the_whole_ring_is_no_bound():
    rows = jax.random.normal(jax.random.key(0), (60, DIM))
    rewards = []
    for search_size in (None, 60):
        init, observe, reward_of = compiled(search_size=search_size)
        state, index = observe(init(), Step(rows))
        rewards.append(reward_of(state, batch(index))[0])
    np.testing.assert_allclose(*rewards, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"count_self": True}, "set count_self to false"),
        ({"search_size": 61}, "search_size must be at most ring_size"),
        ({"search_size": 0}, "search_size must be at least 1"),
        ({"search_size": 10.5}, "search_size must be a whole number, but it is 10.5"),
        ({"search_size": 4}, "no neighbour of rank 4: raise search_size"),
    ],
)
def test_impossible_settings_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        config(**({"search_size": 30} | changes))
