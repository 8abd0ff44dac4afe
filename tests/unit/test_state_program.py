"""Programs that change some fields of a state and return no others."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.training.seeds import OverSeeds
from re3_jax.training.state_program import StateProgram


class State(NamedTuple):
    weights: jax.Array
    steps: jax.Array


def count(state, by):
    return state._replace(steps=state.steps + by), state.weights * state.steps


def state():
    return State(jnp.array([2.0, 3.0]), jnp.array([5, 7]))


def test_what_does_not_change_is_the_callers_own():
    before = state()
    after, info = StateProgram.of(OverSeeds(), count, "steps")(before, jnp.array([1, 2]))
    assert after.weights is before.weights
    np.testing.assert_array_equal(after.steps, [6, 9])
    np.testing.assert_array_equal(info, [10.0, 21.0])
    assert before.steps.is_deleted() and not before.weights.is_deleted()


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_change_that_would_be_lost_is_refused(seeds):
    program = StateProgram.of(OverSeeds(), count, "weights")
    one = jax.tree.map(lambda leaf: leaf[:seeds], state())
    with pytest.raises(ValueError, match="steps of the state changed"):
        program.eval_shape(one, jnp.ones(seeds, int))
