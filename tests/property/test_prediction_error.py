"""Properties of prediction errors for any observations."""

from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax.intrinsic.icm import ICMConfig, icm
from re3_jax.intrinsic.rnd import RNDConfig, rnd
from tests.prediction_tasks import SIZES, make_batch, start

BONUSES = {"rnd": rnd(RNDConfig(**SIZES)), "icm": icm(ICMConfig(**SIZES))}


@partial(jax.jit, static_argnums=0)
def step(kind, state, batch):
    reward, state, _ = BONUSES[kind].reward(state, batch)
    state, info = BONUSES[kind].update(state, batch, jax.random.key(0))
    return reward, state, info


def rows(values):
    """A batch of transitions, many of them equal."""
    batch, index = make_batch("joints"), np.array(values)
    return jax.tree.map(lambda leaf: leaf[index] if leaf.ndim else leaf, batch), index


@pytest.mark.parametrize("kind", BONUSES)
@settings(max_examples=25, deadline=None)
@given(values=st.lists(st.integers(0, 11), min_size=8, max_size=8))
def test_equal_transitions_earn_equal_finite_rewards(kind, values):
    batch, index = rows(values)
    reward, state, info = step(kind, start(kind, "joints"), batch)
    assert (reward >= 0).all()
    for leaf in jax.tree.leaves((reward, state, info)):
        assert np.isfinite(leaf).all()
    alone, _, _ = step(kind, start(kind, "joints"), rows(range(12))[0])
    np.testing.assert_allclose(reward, np.asarray(alone)[index], rtol=1e-4)


@pytest.mark.parametrize("kind", BONUSES)
@settings(max_examples=15, deadline=None)
@given(
    values=st.lists(st.integers(0, 11), min_size=8, max_size=8),
    order=st.permutations(range(8)),
)
def test_the_order_of_a_batch_does_not_matter_to_training(kind, values, order):
    batch, _ = rows(values)
    shuffled, _ = rows([values[i] for i in order])
    _, _, info = step(kind, start(kind, "joints"), batch)
    _, _, other = step(kind, start(kind, "joints"), shuffled)
    for name in info:
        np.testing.assert_allclose(info[name], other[name], rtol=1e-4)
