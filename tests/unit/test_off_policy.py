"""The off-policy device loop: its order of work, what it stores, seeds, going on."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import random_encoder
from re3_jax.agents.sac import learner as sac_learner
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.learner import make_learner
from re3_jax.envs.base import CountableStates
from re3_jax.intrinsic import RE3Config, from_config
from re3_jax.intrinsic.base import none
from re3_jax.replay.transition_ring import TransitionRing
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.off_policy import init_state, make_off_policy_program, train_step
from tests.equal import equal_arrays
from tests.probe_envs import aim, countdown

LANES, CAPACITY, LENGTH = 3, 20, 4
CONFIG = SACConfig(
    hidden_dim=8,
    num_envs=LANES,
    batch_size=16,
    replay_capacity=CAPACITY,
    initial_agent_steps=10,
    updates_per_step=3,
)
RE3 = RE3Config(
    first_neighbour=2, last_neighbour=2, ring_size=CAPACITY, normalize="running_std", beta=0.1
)


def make(bonus, **changes):
    env = aim(LENGTH)
    learner = make_learner(dataclasses.replace(CONFIG, **changes), env.spec, bonus)
    return make_off_policy_program(env, learner, chunk_steps=5, eval_episodes=7, eval_greedy=True)


def test_a_long_cycle_of_updates_makes_no_long_program():
    programs = [make(none(), target_every=every).lowered(1)["train"] for every in (4, 20)]
    lengths = [len(program.as_text()) for program in programs]
    assert lengths[1] < 1.1 * lengths[0]


@pytest.fixture(scope="module")
def program():
    return make(from_config(RE3))


def as_numpy(tree):
    def convert(leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return jax.tree.map(convert, tree)


def pick(tree, index):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)


@pytest.mark.parametrize("terminates", [False, True])
def test_it_steps_stores_acts_and_learns_from_what_is_stored(monkeypatch, terminates):
    states = CountableStates(lambda state: state[1].astype(jnp.int32), LENGTH, LENGTH)
    env = aim(LENGTH, terminates)._replace(states=states)
    batches = []

    def phase(number):
        def update(calls, batch, key):
            if not isinstance(calls, jax.core.Tracer):
                batches.append((number, as_numpy(batch)))
            return calls + 1, {}

        return update

    def reward(state, batch):
        return 100.0 * batch.agent_steps + batch.bonus_index.astype(jnp.float32), state, {}

    def observe(count, step):
        # The state that was acted in, not the one that the action led to.
        np.testing.assert_array_equal(step.state_number, step.observation[:, 1])
        return count + LANES, (count + jnp.arange(LANES)) % CAPACITY

    bonus = none()._replace(
        init=lambda key, spec, num_lanes: jnp.int32(0), observe=observe, reward=reward
    )
    agent = sac_learner.make_sac(CONFIG, env.spec)._replace(
        init=lambda key: jnp.int32(0),
        # Outside of [-1, 1], where random actions are.
        act=lambda calls, observation, key, explore: 2.0 + calls + observation[:, :1],
        phases=(phase(0), phase(1)),
    )
    monkeypatch.setattr(sac_learner, "make_sac", lambda config, spec: agent)
    learner = make_learner(CONFIG, env.spec, bonus)
    state = jax.jit(lambda key: init_state(env, learner, key))(jax.random.key(1))
    with jax.disable_jit():
        for step in range(9):
            before, agent_steps = state, (step + 1) * LANES
            batches.clear()
            state, (_, totals, _) = train_step(env, learner, state)

            rows = np.arange(step * LANES, agent_steps) % CAPACITY
            # The last two fields are the ring's own counters.
            stored = TransitionRing(*pick(state.replay[:-2], rows), None, None)
            observation = np.asarray(before.memory)
            np.testing.assert_array_equal(stored.observation, observation)
            np.testing.assert_array_equal(stored.action, before.lanes.action)
            # The agent's choice is stored; the environment is given the nearest action.
            miss = (stored.action.clip(-1, 1) - observation[:, :1])[:, 0]
            np.testing.assert_allclose(stored.reward, -(miss**2), rtol=1e-5)
            ended = observation[:, 1] == LENGTH - 1
            # A time limit is bootstrapped, from the last observation of the episode it cut.
            np.testing.assert_array_equal(stored.discount, 1.0 - (ended & terminates))
            np.testing.assert_array_equal(stored.next_observation[:, 1], observation[:, 1] + 1)
            shown = np.asarray(state.memory)
            np.testing.assert_array_equal(
                shown[:, 1], np.where(ended, 0, stored.next_observation[:, 1])
            )
            assert totals.episodes.sum() == ended.sum()

            updates = int(before.counters.updates)
            learns = agent_steps >= CONFIG.initial_agent_steps
            if learns:
                # By the policy of before the updates.
                np.testing.assert_allclose(state.lanes.action, 2.0 + updates + shown[:, :1])
            else:
                assert (np.abs(state.lanes.action) <= 1).all()
            expected = [(updates + i) % 2 for i in range(3)] if learns else []
            assert [number for number, _ in batches] == expected
            assert len({batch.bonus.tobytes() for _, batch in batches}) == len(batches)
            for _, batch in batches:
                index = (batch.bonus - 100.0 * agent_steps).astype(int)
                assert (0 <= index).all() and (index < min(agent_steps, CAPACITY)).all()
                np.testing.assert_array_equal(state.replay.observation[index], batch.observation)
    # Steps 4 to 9 were followed by updates.
    assert int(state.agent) == int(state.counters.updates) == 3 * 6
    assert int(state.counters.agent_steps) == 9 * LANES
    # Two episodes of every lane and the first step of a third.
    np.testing.assert_array_equal(state.visited, LANES * np.array([3, 2, 2, 2]))


def test_counters_metrics_and_a_single_compilation(program):
    state = program.init(jnp.array([1, 2]))
    for chunk in range(1, 5):
        donated = jax.tree.leaves(state.agent)[0]
        state, metrics = program.train(state)
        assert donated.is_deleted()
        np.testing.assert_array_equal(state.counters.agent_steps, [15 * chunk] * 2)
        np.testing.assert_array_equal(state.counters.env_frames, [15 * chunk] * 2)
        # After 3 steps of all lanes, 9 agent steps, nothing is learned yet.
        np.testing.assert_array_equal(state.counters.updates, [3 * (5 * chunk - 3)] * 2)
        assert all(np.isfinite(metric).all() for metric in metrics.values()), metrics
        np.testing.assert_allclose(metrics["episode_length_mean"], [LENGTH] * 2)
        assert (metrics["intrinsic_reward_mean"] > 0).all()
    assert program.env_frames_per_chunk == 15
    assert program.train._cache_size() == 1


@pytest.mark.slow
def test_before_the_first_update_its_metrics_are_nan():
    program = make(none(), initial_agent_steps=16)
    state, metrics = program.train(program.init(jnp.array([3])))
    assert np.isnan(metrics["critic_loss"]).all()
    assert np.isfinite(metrics["reward_mean"]).all()
    assert int(state.counters.updates[0]) == 0
    state, metrics = program.train(state)
    assert np.isfinite(metrics["critic_loss"]).all()


def test_a_stored_transitions_row_is_its_latents(program):
    state = program.init(jnp.array([1, 2]))
    for _ in range(3):
        state, _ = program.train(state)
    replay, re3 = state.replay, state.intrinsic.bonus
    assert int(replay.num_valid[0]) == CAPACITY < 45
    for seed in range(2):
        expected = random_encoder.encode(pick(re3.encoder, seed), replay.observation[seed])
        np.testing.assert_allclose(re3.ring.latents[seed], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_seed_among_others_equals_the_seed_alone(program):
    many, single = program.init(jnp.array([4, 9, 2])), program.init(jnp.array([9]))
    for _ in range(2):
        many, _ = program.train(many)
        single, _ = program.train(single)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4),
        pick(as_numpy(many), slice(1, 2)),
        as_numpy(single),
    )
    assert not np.allclose(many.replay.reward[0], many.replay.reward[1])


@pytest.mark.slow
def test_a_state_that_was_saved_goes_on_bit_for_bit(program, tmp_path):
    state, _ = program.train(program.init(jnp.array([1, 2])))
    store = CheckpointStore(tmp_path)
    store.save(1, state, {})
    for _ in range(2):
        state, metrics = program.train(state)
    found = store.restore(program.init(jnp.array([1, 2])), print)
    store.close()
    assert found is not None
    restored = found[0]
    for _ in range(2):
        restored, again = program.train(restored)
    jax.tree.map(equal_arrays, as_numpy(state), as_numpy(restored))
    jax.tree.map(equal_arrays, metrics, again)


def test_evaluation_leaves_the_state_alone_and_repeats_itself(program):
    state = program.init(jnp.array([1, 2]))
    first, second = program.evaluate(state), program.evaluate(state)
    jax.tree.map(equal_arrays, first, second)
    np.testing.assert_array_equal(first.length_mean, [LENGTH] * 2)


def test_every_evaluation_has_episodes_of_its_own(program):
    state = program.init(jnp.array([1, 2]))
    env_frames = state.counters.env_frames + program.env_frames_per_chunk
    later = state._replace(counters=state.counters._replace(env_frames=env_frames))
    first, second = program.evaluate(state), program.evaluate(later)
    assert (first.return_mean != second.return_mean).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initial_agent_steps": 0}, "initial_agent_steps must be at least 1"),
        ({"replay_capacity": 2}, "does not hold one step of 3 lanes"),
        ({"n_steps": 3}, "set n_steps to 1 instead of 3"),
    ],
)
def test_numbers_that_cannot_work_are_one_sentence(changes, message):
    with pytest.raises(ValueError, match=message):
        make(none(), **changes)


def test_discrete_actions_are_refused():
    with pytest.raises(ValueError, match="probe:countdown"):
        make_learner(CONFIG, countdown(3).spec, none())


@pytest.mark.slow
def test_neither_replay_nor_latents_are_copied():
    """What is compiled has no copy of an array as long as the replay, inside a loop or out."""
    capacity = 98_765
    bonus = from_config(dataclasses.replace(RE3, ring_size=capacity, latent_dim=50))
    program = make(bonus, replay_capacity=capacity)
    state = jax.eval_shape(program.init, jnp.arange(2))
    compiled = program.train.lower(state).compile().as_text()
    arrays = re.findall(rf"= f32\[(?:\d+,)*{capacity}(?:,\d+)*\]\S* (\w[\w-]*)\(", compiled)
    assert "get-tuple-element" in arrays
    assert "copy" not in arrays
