"""Properties of the reward for any set of states."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.initializers import Layer
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.intrinsic.re3 import RE3Config, re3
from re3_jax.random_encoder import VectorEncoder

VECTOR = EnvSpec("gymnax:any", (3,), np.dtype(np.float32), Discrete(3), 200)
BATCH = 6
RULES = {
    "paper": RE3Config(ring_size=64, latent_dim=4),
    "released": RE3Config(first_neighbour=1, last_neighbour=5, ring_size=64, latent_dim=4),
    "without self": RE3Config(
        first_neighbour=3, last_neighbour=3, count_self=False, ring_size=64, latent_dim=4
    ),
}
BONUSES = {name: re3(config) for name, config in RULES.items()}


@cache
def start_of(rule):
    return BONUSES[rule].init(jax.random.key(0), VECTOR)


@partial(jax.jit, static_argnums=0)
def observe(rule, state, observation):
    return BONUSES[rule].observe(state, Step(observation))


@partial(jax.jit, static_argnums=0)
def reward(rule, state, index):
    return BONUSES[rule].reward(state, IntrinsicBatch(None, None, None, index, jnp.int32(0)))[0]


def clouds():
    """Batches of states on a coarse lattice, so that duplicates are common."""
    row = st.tuples(*[st.integers(-3, 3)] * 3)
    batch = st.lists(row, min_size=BATCH, max_size=BATCH)
    return st.lists(batch, min_size=1, max_size=4).map(lambda b: np.array(b, np.float32))


def fill(rule, batches, start=None):
    state, indices = start_of(rule) if start is None else start, []
    for batch in batches:
        state, index = observe(rule, state, batch)
        indices.append(index)
    return state, jnp.concatenate(indices)[-BATCH:]


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=40, deadline=None)
@given(batches=clouds(), more=clouds())
def test_more_states_never_raise_a_reward(rule, batches, more):
    """The added states include duplicates of the rewarded ones."""
    state, index = fill(rule, batches)
    before = reward(rule, state, index)
    assert np.isfinite(before).all()
    assert before.min() >= 0.0
    for extra in (batches[-1:], more):
        after = reward(rule, fill(rule, extra, state)[0], index)
        assert (after <= before * (1 + 1e-5) + 1e-5).all()


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=25, deadline=None)
@given(batches=clouds(), exponent=st.integers(-8, 8))
def test_rewards_scale_with_the_latents(rule, batches, exponent):
    """Scaling the encoder's last layer by a power of two scales every distance."""
    begun = start_of(rule)
    encoder = begun.encoder
    factor = 2.0**exponent
    output = Layer(encoder.output.kernel * factor, encoder.output.bias * factor)
    scaled = begun._replace(encoder=VectorEncoder(encoder.hidden, output))
    plain = reward(rule, *fill(rule, batches))
    np.testing.assert_allclose(
        reward(rule, *fill(rule, batches, scaled)), factor * plain, rtol=1e-4, atol=1e-5 * factor
    )


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=25, deadline=None)
@given(batches=clouds(), order=st.permutations(range(BATCH)))
def test_the_order_of_a_batch_does_not_matter(rule, batches, order):
    shuffled = batches.copy()
    shuffled[-1] = batches[-1][list(order)]
    np.testing.assert_allclose(
        reward(rule, *fill(rule, shuffled)),
        reward(rule, *fill(rule, batches))[np.array(order)],
        rtol=1e-4,
        atol=1e-5,
    )
