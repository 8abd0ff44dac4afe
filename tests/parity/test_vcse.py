"""VCSE within the minibatch against its authors' code, over the ring against NumPy, and its aim."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.special import digamma

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic import re3, vcse
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.vcse import VCSEConfig
from tests.parity.test_state_entropy_bonus import MINIGRID, draw
from tests.torch_oracle import entropies
from tests.torch_oracle.layers import latents as torch_latents

BATCH, RING, LATENT = 16, 40, 64
VECTOR = EnvSpec("gymnax:any", (4,), np.dtype(np.float32), Discrete(2), 500)
ENTROPY = RE3Config(ring_size=RING)


def functions(config, entropy=ENTROPY):
    bonus = vcse.vcse(config, entropy)
    return jax.jit(bonus.init, static_argnums=1), jax.jit(bonus.observe), jax.jit(bonus.reward)


def values_of(seed):
    """Values of another scale than latents, some of them equal; all other gaps differ."""
    rng = np.random.default_rng(100 + seed)
    return (7 + 20 * rng.normal(size=9)).astype(np.float32)[rng.integers(0, 9, BATCH)]


@pytest.mark.parametrize("k", [1, 3, 11])
def test_a_minibatch_equals_the_authors_code(k):
    """Views repeat, and a transition may be drawn twice: then eps can be 0."""
    init, observe, reward = functions(VCSEConfig(k=k))
    state, observation = init(jax.random.key(0), MINIGRID), draw(MINIGRID, 1)
    state, index = observe(state, Step(observation))
    for seed in range(3):
        picked = np.random.default_rng(seed).integers(0, BATCH, BATCH)
        value = values_of(seed)[picked]
        batch = IntrinsicBatch(observation[picked], None, None, index[picked], None, value)
        paid, _, info = reward(state, batch)
        latents = torch.tensor(torch_latents(state.encoder, observation[picked]))
        expected, radius, count = entropies.vcse(latents, torch.tensor(value).double(), k + 1)
        np.testing.assert_allclose(paid, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(info["vcse_eps_mean"], 2 * radius.mean(), rtol=1e-4)
        np.testing.assert_allclose(info["vcse_n_v_mean"], count.double().mean(), rtol=1e-6)
    assert (radius == 0).any() or k > 1


@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.float16])
def test_values_of_half_precision_are_counted_in_single(kind):
    init, observe, reward = functions(VCSEConfig())
    state, observation = init(jax.random.key(0), MINIGRID), draw(MINIGRID, 1)
    state, index = observe(state, Step(observation))
    half = jnp.asarray(values_of(0), kind)
    found = [
        reward(state, IntrinsicBatch(observation, None, None, index, None, value))
        for value in (half, half.astype(jnp.float32))
    ]
    (paid, _, info), (expected, _, expected_info) = found
    np.testing.assert_array_equal(paid, expected)
    assert info == expected_info


@pytest.mark.parametrize("values", ["of the view", "of the past too"])
@pytest.mark.parametrize("kinds", [40, 550])
def test_a_large_minibatch_that_merges_copies_equals_the_authors_code(kinds, values):
    """Two seeds in one program; copies of a view are one state only if their values agree."""
    bonus = vcse.vcse(VCSEConfig(), RE3Config(ring_size=600, merge_copies=True))

    @jax.jit
    @jax.vmap
    def pay(key, observation, value):
        state, index = bonus.observe(bonus.init(key, MINIGRID), Step(observation))
        batch = IntrinsicBatch(observation, None, None, index, None, value)
        return bonus.reward(state, batch)[0], state.encoder

    rng = np.random.default_rng(kinds)
    views = rng.integers(0, 6, (kinds, 7, 7, 3), dtype=np.uint8)
    kind = rng.integers(0, kinds, (2, 600))
    value = (7 + 20 * rng.normal(size=(2, 600))).astype(np.float32)
    if values == "of the view":
        value = np.take_along_axis(value, kind, axis=1)
    paid, encoders = pay(jax.random.split(jax.random.key(0), 2), views[kind], value)
    for seed in range(2):
        encoder = jax.tree.map(lambda leaf, seed=seed: leaf[seed], encoders)
        latents = torch.tensor(torch_latents(encoder, views[kind[seed]]))
        expected, *_ = entropies.vcse(latents, torch.tensor(value[seed]).double(), 4)
        np.testing.assert_allclose(paid[seed], expected, rtol=1e-4, atol=1e-4)


def brute_force(latents, values, store, stored_values, own, k):
    """The reward over all that is searched, in float64, with plain loops.

    `own` are the places of the states among them, or -1: such a state counts itself all the same.
    """
    mean, variance = stored_values.mean(), stored_values.var()
    scale = np.sqrt(variance + 1e-5)
    paid = []
    for latent, value, mine in zip(latents, values, own, strict=True):
        gaps = abs((stored_values - mean) / scale - (value - mean) / scale)
        joint = np.maximum(np.linalg.norm(store - latent, axis=1), gaps)
        radius = np.sort(np.delete(joint, mine) if mine >= 0 else joint)[k - 1]
        within = sum(gap < radius for gap in gaps) + (mine < 0 < radius)
        paid.append(digamma(within + 1) / LATENT + np.log(2 * radius + 1e-5))
    return np.array(paid)


def test_the_ring_equals_brute_force_over_all_that_is_stored():
    """Values are those of the time of storing, for neighbours and for the batch; old rows go."""
    init, observe, reward = functions(VCSEConfig(k=3, neighbours="ring"))
    state = init(jax.random.key(0), MINIGRID)
    store, kept = np.zeros((RING, LATENT)), np.zeros(RING)
    for number in range(4):
        observation, value = draw(MINIGRID, number), values_of(number)
        state, index = observe(state, Step(observation, value=value))
        index = np.asarray(index)
        store[index], kept[index] = torch_latents(state.encoder, observation), value
        stored = min(RING, BATCH * (number + 1))
        drawn = np.random.default_rng(number).integers(0, stored, BATCH)
        paid, _, info = reward(state, IntrinsicBatch(observation, None, None, drawn, None))
        expected = brute_force(store[drawn], kept[drawn], store[:stored], kept[:stored], drawn, k=3)
        np.testing.assert_allclose(paid, expected, rtol=1e-4, atol=1e-4)
        assert info["vcse_n_v_mean"] > 1


def test_a_bounded_search_equals_brute_force_over_the_newest():
    """Older states are paid, too, by what is searched; one of them may be a copy of a newer one."""
    size = 24
    init, observe, reward = functions(VCSEConfig(k=3, neighbours="ring", search_size=size))
    state = init(jax.random.key(0), MINIGRID)
    store, kept = np.zeros((RING, LATENT)), np.zeros(RING)
    order = []
    for number in range(4):
        observation, value = draw(MINIGRID, number % 3), values_of(number)
        state, index = observe(state, Step(observation, value=value))
        index = np.asarray(index)
        store[index], kept[index] = torch_latents(state.encoder, observation), value
        order = (order + index.tolist())[-RING:]
        newest = np.array(order[-size:])
        drawn = np.random.default_rng(number).choice(order, BATCH)
        own = [order[-size:].index(row) if row in newest else -1 for row in drawn]
        paid, *_ = reward(state, IntrinsicBatch(observation, None, None, drawn, None))
        searched = store[newest], kept[newest]
        expected = brute_force(store[drawn], kept[drawn], *searched, own, k=3)
        np.testing.assert_allclose(paid, expected, rtol=1e-4, atol=1e-4)
    assert min(own) < 0 < max(own)


@pytest.mark.parametrize("neighbours", ["minibatch", "ring"])
def test_a_crowd_of_another_value_does_not_lower_the_bonus(neighbours):
    """What it is for: worthless states that come near a valuable one leave its bonus as it is.

    RE3 pays the valuable states less for each state of the crowd. VCSE does not, as long as the
    crowd's value is further away than the valuable states are from each other.
    """
    rng = np.random.default_rng(0)
    valuable = rng.normal(size=(20, 4)).astype(np.float32)
    worthless = (5 + 30 * rng.random((60, 4))).astype(np.float32)
    crowd = np.tile(valuable, (3, 1)) + 0.05 * rng.normal(size=(60, 4)).astype(np.float32)
    entropy = RE3Config(
        ring_size=80, first_neighbour=3, last_neighbour=3, count_self=False, latent_dim=4
    )
    value = jnp.concatenate([jnp.full(20, 10.0), jnp.zeros(60)])

    @partial(jax.jit, static_argnums=0)
    def paid(bonus, others):
        states = jnp.concatenate([valuable, others])
        state, index = bonus.observe(
            bonus.init(jax.random.key(0), VECTOR), Step(states, value=value)
        )
        reward, *_ = bonus.reward(state, IntrinsicBatch(states, None, None, index, None, value))
        return reward[:20]

    conditional = vcse.vcse(VCSEConfig(k=3, neighbours=neighbours), entropy)
    plain = re3.re3(entropy)
    np.testing.assert_allclose(paid(conditional, worthless), paid(conditional, crowd), rtol=1e-5)
    assert (paid(plain, crowd) < 0.5 * paid(plain, worthless)).all()


@pytest.mark.parametrize("neighbours", ["minibatch", "ring"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_as_if_its_state_were_not_there(neighbours, bad):
    init, observe, reward = functions(VCSEConfig(k=3, neighbours=neighbours))

    def pay(rows, value):
        state = init(jax.random.key(0), MINIGRID)
        observation, value = draw(MINIGRID, 1)[rows], value[rows]
        state, index = observe(state, Step(observation, value=value))
        batch = IntrinsicBatch(observation, None, None, index, None, value)
        return np.asarray(reward(state, batch)[0])

    value, without = values_of(0), np.delete(np.arange(BATCH), 5)
    spoiled = value.copy()
    spoiled[5] = bad
    paid = pay(np.arange(BATCH), spoiled)
    assert not np.isfinite(paid[5])
    np.testing.assert_allclose(paid[without], pay(without, value), rtol=1e-5)


def test_what_is_missing_is_said():
    init, observe, reward = functions(VCSEConfig(k=30, neighbours="minibatch"))
    state = init(jax.random.key(0), MINIGRID)
    batch = IntrinsicBatch(None, None, None, jnp.arange(BATCH), None)
    with pytest.raises(ValueError, match="a minibatch of 16 has no neighbour of rank 30"):
        reward(state, batch)
    with pytest.raises(ValueError, match="needs value of every step"):
        functions(VCSEConfig())[2](state, batch)
    init, observe, _ = functions(VCSEConfig(neighbours="ring"))
    with pytest.raises(ValueError, match="needs value of every step"):
        observe(init(jax.random.key(0), MINIGRID), Step(draw(MINIGRID, 0)))
    with pytest.raises(ValueError, match="a ring of 40 latents has no neighbour of rank 40"):
        vcse.vcse(VCSEConfig(k=40, neighbours="ring"), ENTROPY)
    for values, sentence in (
        ({"k": 0}, "k must be at least 1"),
        ({"neighbours": "all"}, "ring"),
        ({"search_size": 10.5}, "search_size must be a whole number, but it is 10.5"),
        ({"k": 9, "search_size": 9}, "among 9 states none has a neighbour of rank 9"),
    ):
        with pytest.raises(ValueError, match=sentence):
            VCSEConfig(**values)
