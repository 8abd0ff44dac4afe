"""Dreamer where no episode is as long as a sequence, Rainbow where none has n steps together.

Lanes were lost, or the task ends or is cut early.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import compilation
from re3_jax.agents.base import LearnerState
from re3_jax.agents.dreamer.learner import make_learner
from re3_jax.agents.off_policy import where_drawn
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import Discrete, EnvSpec, LaneStep
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


@pytest.fixture(scope="module", params=[True, False], ids=["prioritized", "uniform"])
def rainbow_learner(request):
    config = RainbowConfig(
        torso="mlp",
        hidden_dim=4,
        num_atoms=3,
        n_steps=3,
        batch_size=4,
        replay_capacity=64,
        initial_agent_steps=20,
        prioritized=request.param,
    )
    spec = EnvSpec("mine:cut", (3,), np.dtype(np.float32), Discrete(2), max_agent_steps=50)
    made = rainbow.make_learner(config, spec, from_config(RNDConfig(latent_dim=4, hidden_dim=4)))
    return made._replace(store=jax.jit(made.store), phases=tuple(map(compilation.jit, made.phases)))


def stored_steps(learner, state, numbers, length):
    """The state after steps of which every `length`-th is cut by a limit of the environment's."""
    no = jnp.zeros(1, bool)
    for number in numbers:
        frame = jnp.full((1, 3), float(number))
        cut = jnp.full(1, number % length == 0)
        step = LaneStep(frame, jnp.ones(1), no, cut, frame, no)
        state = learner.store(state, jnp.zeros(1, jnp.int32), step)
    return state


def test_rainbow_learns_nothing_where_nothing_can_be_drawn_and_later_as_ever(rainbow_learner):
    start = rainbow_learner.init(jax.random.key(0), jnp.zeros((1, 3)))
    state = stored_steps(rainbow_learner, start, range(1, 25), 3)
    assert rainbow_learner.updates_due(20, 24) == 1
    after, info = rainbow_learner.phases[0](state, jnp.int32(24), jax.random.key(1))
    jax.tree.map(equal_arrays, after.agent.online, state.agent.online)
    jax.tree.map(equal_arrays, after.intrinsic, state.intrinsic)
    jax.tree.map(equal_arrays, after.replay, state.replay)
    assert all(np.isnan(value) for value in info.values())
    later = stored_steps(rainbow_learner, after, range(25, 35), 40)
    learned, info = rainbow_learner.phases[0](later, jnp.int32(34), jax.random.key(2))
    assert np.isfinite(info["loss"])
    leaves = [jax.tree.leaves(one.agent.online) for one in (later, learned)]
    assert all(np.isfinite(leaf).all() for leaf in leaves[1])
    assert any(not np.array_equal(*both) for both in zip(*leaves, strict=True))
