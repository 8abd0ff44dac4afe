"""Rainbow in the device loop learns, also with each of its parts left out."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.rainbow.learner import make_learner, priority_weight
from re3_jax.intrinsic import re3
from re3_jax.intrinsic.base import none
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.training.off_policy import make_off_policy_program
from tests.probe_envs import corridor, countdown

pytestmark = pytest.mark.slow

AGENT = RainbowConfig(
    torso="mlp",
    hidden_dim=32,
    num_atoms=21,
    v_min=0.0,
    v_max=2.0,
    noise=0.5,
    discount=0.9,
    learning_rate=1e-3,
    target_every=50,
    replay_capacity=2_000,
    initial_agent_steps=200,
    anneal_agent_steps=4_000,
    num_envs=4,
)


def make(env, config=AGENT, bonus=None, chunk_steps=100):
    return make_off_policy_program(
        env,
        make_learner(config, env.spec, bonus or none()),
        chunk_steps=chunk_steps,
        eval_episodes=20,
        eval_greedy=True,
    )


def train(program, chunks):
    state = program.init(jnp.arange(2))
    for _ in range(chunks):
        state, metrics = program.train(state)
    return state, jax.device_get(metrics)


LEFT_OUT = {
    "all of Rainbow": {},
    "without double": {"double": False},
    "without dueling": {"dueling": False},
    "without noise": {"noisy": False, "epsilon": 0.3},
    "without distributions": {"distributional": False},
    "without priorities": {"prioritized": False},
    "without steps": {"n_steps": 1},
}


@pytest.mark.parametrize("change", LEFT_OUT.values(), ids=LEFT_OUT)
def test_it_walks_to_the_end_of_a_corridor(change):
    """Four right steps in a row earn one reward; fewer earn nothing."""
    program = make(corridor(4), dataclasses.replace(AGENT, **change))
    state, metrics = train(program, 10)
    np.testing.assert_array_equal(program.evaluate(state).return_mean, 1.0)
    assert np.all(np.isfinite(metrics["loss"]))


def test_updates_follow_agent_steps_and_priorities_follow_losses():
    config = dataclasses.replace(AGENT, agent_steps_per_update=8)
    state, metrics = train(make(countdown(), config), 1)
    # 100 turns of 4 lanes; learning begins with agent step 200.
    np.testing.assert_array_equal(state.counters.agent_steps, 400)
    np.testing.assert_array_equal(state.counters.updates, 26)
    leaves = np.asarray(state.replay.tree.levels[0])
    assert ((leaves > 0) & (leaves != 1)).sum() > 50
    uniform, _ = train(make(countdown(), dataclasses.replace(AGENT, prioritized=False)), 1)
    assert set(np.unique(uniform.replay.tree.levels[0])) == {0.0, 1.0}
    assert np.all(metrics["intrinsic_reward_mean"] == 0)


def test_re3_rewards_what_was_stored():
    """Slots of the replay are rows of the latents; RE3 rewards the rarer half of the states."""
    neighbour = AGENT.replay_capacity // 2
    config = RE3Config(
        first_neighbour=neighbour,
        last_neighbour=neighbour,
        ring_size=AGENT.replay_capacity,
        latent_dim=8,
        beta=0.5,
    )
    state, metrics = train(make(corridor(4), bonus=re3.from_config(config)), 7)
    ring, replay = state.intrinsic.bonus.ring, state.replay
    np.testing.assert_array_equal(ring.num_valid, AGENT.replay_capacity)
    assert np.all(np.isfinite(metrics["loss"]))
    assert np.all(metrics["intrinsic_reward_mean"] > 0)
    frames = np.asarray(replay.frames.all())[:, : AGENT.replay_capacity]
    frames = frames.reshape(2, AGENT.replay_capacity, -1)
    latents = np.asarray(ring.latents)
    for seed in range(2):
        for row in range(0, 50, 7):
            same = (frames[seed] == frames[seed, row]).all(axis=1)
            near = np.abs(latents[seed] - latents[seed, row]).max(axis=1) < 1e-5
            np.testing.assert_array_equal(same, near)


def test_stored_rewards_are_clipped():
    """Reported rewards are not clipped."""
    state, metrics = train(make(corridor(4), dataclasses.replace(AGENT, reward_clip=0.25)), 5)
    assert set(np.unique(state.replay.reward)) == {0.0, 0.25}
    assert np.all(metrics["episode_return_mean"] > 0.5)


def test_the_weight_of_priorities_rises_to_one():
    """Schaul et al. (2016), section 3.4: from the first update on."""
    config = dataclasses.replace(AGENT, priority_weight=0.4)
    steps = jnp.array([200, 1_150, 2_100, 4_000, 9_000])
    weights = jax.vmap(lambda step: priority_weight(config, step))(steps)
    np.testing.assert_allclose(weights, [0.4, 0.55, 0.7, 1.0, 1.0], rtol=1e-6)
    assert priority_weight(dataclasses.replace(config, prioritized=False), steps[0]) == 0


def test_seeds_are_independent():
    program = make(corridor(4))
    state = program.init(jnp.array([3, 5]))
    swapped = program.init(jnp.array([5, 3]))
    for _ in range(2):
        state, _ = program.train(state)
        swapped, _ = program.train(swapped)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(swapped), strict=True):
        if not jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(one, other[::-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"replay_capacity": 2_001}, "multiple of num_envs"),
        ({"initial_agent_steps": 12}, "whole after 12"),
        ({"replay_capacity": 20}, "raise replay_capacity to 32"),
    ],
)
def test_sizes_that_cannot_work_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        make(corridor(4), dataclasses.replace(AGENT, **change))
    with pytest.raises(ValueError, match="lower n_steps"):
        make(countdown(3))
