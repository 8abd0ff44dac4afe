"""What the functions of the library say to arguments of another kind or shape than theirs."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import knn
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import IntrinsicBatch, RE3Config, Step, chain, from_config, log1p, none
from re3_jax.intrinsic.rewarding import reward_batch, reward_rollout
from re3_jax.replay import latent_ring

SPEC = EnvSpec("plane", (2,), np.dtype(np.float32), Discrete(2), max_agent_steps=20)
PLACES = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
KEY = jax.random.key(0)


def ring():
    return latent_ring.add(latent_ring.init(16, 2), PLACES)[0]


@pytest.mark.parametrize(
    ("queries", "rows", "k", "words"),
    [
        (PLACES, PLACES, 3, "ring is a ndarray: give a LatentRing"),
        (PLACES, "ring", 3.0, "k is 3.0: give a whole number"),
        (PLACES.tolist(), "ring", 3, r"queries are a list: give an array \[batch, latent\]"),
    ],
)
def test_a_search_says_what_it_needs(queries, rows, k, words):
    with pytest.raises(TypeError, match=words):
        knn.kth_distance(queries, ring() if isinstance(rows, str) else rows, k=k)


def test_a_rank_that_is_traced_is_refused():
    with pytest.raises(TypeError, match="give a whole number that is known before tracing"):
        jax.jit(lambda k: knn.kth_distance(PLACES, ring(), k=k))(3)


def test_a_whole_number_may_be_numpys_or_an_array_that_holds_one():
    expected = knn.kth_distance(PLACES, ring(), k=3)
    for k in (np.int64(3), jnp.int32(3)):
        np.testing.assert_array_equal(knn.kth_distance(PLACES, ring(), k=k), expected)


def test_one_latent_is_no_batch():
    with pytest.raises(ValueError, match=r"latents of shape \[2\] are no batch: give \[batch, 2\]"):
        latent_ring.add(latent_ring.init(16, 2), PLACES[0])


@pytest.mark.parametrize(
    "index", [jnp.zeros(1, int), jnp.zeros(2, int), jnp.zeros((8, 1), int), jnp.zeros(8)]
)
def test_indices_of_another_shape_are_refused_and_not_broadcast(index):
    bonus = from_config(RE3Config(ring_size=16, latent_dim=4))
    state, found = bonus.observe(bonus.init(KEY, SPEC), Step(jnp.asarray(PLACES)))
    batch = IntrinsicBatch(PLACES, jnp.zeros(8, int), PLACES, found, jnp.int32(8))
    assert reward_batch(bonus, state, batch, KEY)[0].shape == (8,)
    with pytest.raises(ValueError, match=r"bonus_index is .* needs int32\[8\]: give what"):
        reward_batch(bonus, state, batch._replace(bonus_index=index), KEY)


def test_a_batch_without_indices_says_so():
    bonus = from_config(RE3Config(ring_size=16, latent_dim=4))
    batch = IntrinsicBatch(PLACES, jnp.zeros(8, int), PLACES, None, jnp.int32(8))
    with pytest.raises(ValueError, match="needs bonus_index of every step"):
        reward_batch(bonus, bonus.init(KEY, SPEC), batch, KEY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observation_shape": 4}, r"observation_shape is 4: give a tuple, such as \(4,\)"),
        ({"action_space": 2}, "action_space is a builtins.int: give a Discrete or a Box"),
        (
            {"action_space": gymnasium.spaces.Discrete(2)},
            "a gymnasium.spaces.discrete.Discrete: give a Discrete or a Box of re3_jax.envs.base",
        ),
    ],
)
def test_a_task_says_how_it_is_described(change, words):
    with pytest.raises(TypeError, match=words):
        dataclasses.replace(SPEC, **change)
    assert dataclasses.replace(SPEC, observation_shape=[2]) == SPEC


def test_options_are_no_bonus():
    for reward in (reward_batch, reward_rollout):
        with pytest.raises(TypeError, match="bonus is a RE3Config: give an IntrinsicReward"):
            reward(RE3Config(), None, None, None, None)


@pytest.mark.parametrize(
    ("function", "returns", "words"),
    [
        ("observe", lambda state, step: step.observation, r"one value: return \(state, index\)"),
        (
            "reward",
            lambda state, batch: (batch, state),
            r"2 values: return \(reward, state, info\)",
        ),
        ("update", lambda state, batch, key: key, r"one value: return \(state, info\)"),
    ],
)
def test_a_result_that_is_missing_in_a_chain_is_named(function, returns, words):
    bonus = chain(none()._replace(**{function: returns}), log1p())
    state, steps = bonus.init(KEY, SPEC), Step(jnp.asarray(PLACES)[None])
    with pytest.raises(ValueError, match=f"{function} of the bonus returns {words}"):
        reward_rollout(bonus, state, steps, jnp.int32(8), KEY)
