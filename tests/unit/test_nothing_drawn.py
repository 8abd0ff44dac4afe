"""Dreamer where no episode is as long as a sequence: lanes were lost, or the task ends early."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import compilation
from re3_jax.agents.base import LearnerState
from re3_jax.agents.dreamer.learner import make_learner
from re3_jax.agents.off_policy import where_drawn
from re3_jax.envs.base import LaneStep
from re3_jax.intrinsic.rnd import RNDConfig, from_config
from tests.equal import equal_arrays
from tests.probe_host_env import EPISODE, spec
from tests.unit.test_dreamer_host_loop import CONFIG

BONUS = from_config(RNDConfig(latent_dim=4, hidden_dim=4, num_filters=2, image_crop=64))


@pytest.fixture(scope="module")
def learner():
    made = make_learner(CONFIG, dataclasses.replace(spec(1, 64), max_agent_steps=EPISODE), BONUS)
    return made._replace(store=jax.jit(made.store), phases=tuple(map(compilation.jit, made.phases)))


def after_episodes_of(length, learner):
    frame = jnp.ones((1, 64, 64, 3), jnp.uint8)
    state = learner.init(jax.random.key(0), frame)
    no = jnp.zeros(1, bool)
    for step in range(1, 13):
        done = jnp.full(1, step % length == 0)
        step = LaneStep(frame, jnp.ones(1), done, no, frame, done)
        state = learner.store(state, jnp.zeros((1, 1)), step)
    return state


def test_nothing_is_learned_where_nothing_can_be_drawn(learner):
    state = after_episodes_of(CONFIG.sequence_length - 1, learner)
    after, info = learner.phases[0](state, jnp.int32(12), jax.random.key(1))
    jax.tree.map(equal_arrays, (after.agent, after.intrinsic), (state.agent, state.intrinsic))
    assert all(np.isnan(value) for value in info.values())


def test_what_no_update_changes_is_not_copied():
    """Neither loop could tell otherwise that a ring of latents may stay where it is."""
    ring, agent = jnp.zeros(3), jnp.zeros(2)
    before = LearnerState(agent, ring, (), ())
    after, _ = where_drawn(jnp.bool_(False), before, before._replace(agent=agent + 1), {})
    assert after.intrinsic is ring
    np.testing.assert_array_equal(after.agent, agent)


def test_the_same_update_learns_from_longer_episodes(learner):
    state = after_episodes_of(CONFIG.sequence_length + 1, learner)
    after, info = learner.phases[0](state, jnp.int32(12), jax.random.key(1))
    assert all(np.isfinite(value) for value in info.values())
    kernels = (jax.tree.leaves(one.agent.model)[0] for one in (state, after))
    assert not np.array_equal(*kernels)
