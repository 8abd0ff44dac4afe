"""The host loop on a task of a few pixels: order of work, seeds, learning, going on."""

import dataclasses
import operator
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax import compilation
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.learner import make_learner
from re3_jax.intrinsic.base import none
from re3_jax.intrinsic.re3 import RE3Config, from_config
from re3_jax.runs.resolve import resolve
from re3_jax.runs.session import Session
from re3_jax.training import host_evaluation, layouts
from re3_jax.training.host_evaluation import lane_seeds
from re3_jax.training.host_loop import HostProgram
from tests.equal import equal_arrays
from tests.probe_host_env import EPISODE, DotLanes, spec, watched

CAPACITY, INITIAL, CHUNK = 300, 50, 50


def make(seeds, bonus=None, num_devices=1, lanes=1):
    made = []

    def make_env(lanes):
        made.append(DotLanes(lanes))
        return made[-1]

    sac = SACConfig(
        augmentation="none",
        num_filters=4,
        hidden_dim=32,
        latent_dim=16,
        batch_size=32,
        replay_capacity=CAPACITY,
        initial_agent_steps=INITIAL,
        num_envs=lanes,
        critic_learning_rate=3e-3,
        actor_learning_rate=3e-3,
    )
    program = HostProgram(
        make_learner(sac, spec(), bonus or none()),
        make_env,
        seeds=seeds,
        chunk_agent_steps=CHUNK,
        eval_episodes=3,
        eval_greedy=True,
        devices=jax.devices()[:num_devices],
    )
    return program, made


def start(program, seeds):
    state = program.init(jnp.asarray(seeds, jnp.int32))
    program.compile(state)
    return state


def re3():
    config = RE3Config(
        first_neighbour=4,
        last_neighbour=4,
        ring_size=CAPACITY,
        beta=0.05,
        normalize="running_std",
        log1p=False,
        latent_dim=16,
        num_filters=4,
    )
    return from_config(config)


def test_programs_are_compiled_with_options_for_convolutions(monkeypatch):
    monkeypatch.setattr(compilation, "options", lambda *_: {"xla_no_such_option": "1"})
    program, _ = make([1])
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        program.init(jnp.asarray([1], jnp.int32))


def elsewhere(lanes):
    """The lanes, in the middle of an episode that nobody asked for."""
    lanes.reset(np.array([99]))
    return lanes


def to_numpy(state):
    return jax.tree.map(
        lambda leaf: np.asarray(
            jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        ),
        state,
    )


def assert_same(a, b):
    jax.tree.map(equal_arrays, to_numpy(a), to_numpy(b))


@pytest.fixture(scope="module")
def trained():
    """Six chunks of one seed with RE3, the state captured after the third."""
    program, _ = make([1], re3())
    state, metrics = start(program, [1]), []
    for i in range(6):
        if i == 3:
            middle = jax.tree.map(jnp.copy, program.capture(state))
        state, m = program.train(state)
        metrics.append(m)
    return program, middle, program.capture(state), metrics


def test_learns_and_counts(trained):
    _, _, state, metrics = trained
    assert metrics[-1]["reward_mean"][0] > 0.8 > 0.65 > metrics[0]["reward_mean"][0]
    assert int(state.counters.agent_steps[0]) == 6 * CHUNK
    assert int(state.counters.env_frames[0]) == 6 * CHUNK * 2
    assert int(state.counters.updates[0]) == 6 * CHUNK - INITIAL
    assert int(state.replay.num_transitions[0]) == 6 * CHUNK
    assert all(m["episodes"][0] == CHUNK / EPISODE for m in metrics)
    assert all(m["episode_length_mean"][0] == EPISODE for m in metrics)


def test_update_metrics_before_the_first_update_are_missing(trained):
    _, _, _, metrics = trained
    assert np.isnan(metrics[0]["critic_loss"]).all()
    assert np.isfinite(metrics[1]["critic_loss"]).all()
    assert metrics[0].keys() == metrics[1].keys()
    assert (metrics[1]["intrinsic_reward_mean"] > 0).all()


def test_every_stored_transition_has_its_latent(trained):
    program, _, state, _ = trained
    ring = state.intrinsic.bonus.ring
    assert int(ring.num_valid[0]) == min(CAPACITY, 6 * CHUNK)
    assert int(ring.cursor[0]) == int(state.replay.num_transitions[0]) % CAPACITY


def test_goes_on_bit_for_bit_with_other_lanes(trained):
    program, middle, end, _ = trained
    program._env = elsewhere(DotLanes(1))
    state = program.resume(jax.tree.map(jnp.copy, middle))
    for _ in range(3):
        state, _ = program.train(state)
    assert_same(program.capture(state), end)


def test_programs_that_are_made_once_take_every_state_of_a_run(trained, monkeypatch):
    """On TPUs, and where a ring is divided, the shapes first seen are those of a program."""
    _, middle, end, _ = trained
    monkeypatch.setattr(layouts, "PLATFORMS", ("cpu",))
    program, _ = make([1], re3())
    program.abstract_state(1)
    start(program, [1])
    state = program.resume(jax.tree.map(jnp.copy, middle))
    for _ in range(3):
        state, _ = program.train(state)
    assert_same(program.capture(state), end)


@pytest.mark.slow
def test_a_seed_does_not_depend_on_its_neighbours(trained):
    _, middle, _, _ = trained
    program, _ = make([7, 1], re3(), num_devices=2)
    state = start(program, [7, 1])
    for _ in range(3):
        state, _ = program.train(state)
    both = program.capture(state)

    def assert_close(ours, alone):
        """By norm: Adam moves a weight whose gradient is all rounding as far as any other."""
        ours, alone = np.asarray(ours[1:], np.float64), np.asarray(alone, np.float64)
        assert np.linalg.norm(ours - alone) <= 0.02 * np.linalg.norm(alone)

    jax.tree.map(assert_close, both.replay, middle.replay)
    networks = operator.attrgetter("actor", "critic", "target")
    jax.tree.map(assert_close, networks(both.agent), networks(middle.agent))


def test_evaluation_copies_what_acts_and_repeats_itself(trained):
    program, middle, end, _ = trained
    middle, frames = jax.tree.map(jnp.copy, middle), []
    play = program.start_evaluation(middle, frames)
    jax.tree.map(lambda leaf: leaf.delete(), middle.agent)
    stats = play()
    assert len(frames) == EPISODE and frames[0].shape == (16, 16, 3)
    assert (stats.length_mean == EPISODE).all() and (stats.episodes == 3).all()
    first, again = program.start_evaluation(end)(), program.start_evaluation(end)()
    assert first == again
    assert first.return_mean[0] > 0.6 * EPISODE


def test_an_evaluation_starts_no_more_lanes_than_it_may(monkeypatch):
    """And still plays all of its episodes."""
    monkeypatch.setattr(host_evaluation, "MOST_LANES", 4)
    program, made = make([3, 8])
    stats = program.start_evaluation(start(program, [3, 8]))()
    assert [lanes.num_lanes for lanes in made] == [2, 2 * 2]
    assert (stats.episodes == 3).all() and (stats.length_mean == EPISODE).all()


def test_episodes_differ_between_seeds_frames_lanes_and_from_those_of_training():
    drawn = [
        lane_seeds(np.array([1, 2]), frames, 5, training=training)
        for frames in (0, 1000)
        for training in (False, True)
    ]
    assert len(set(np.concatenate(drawn).tolist())) == 40


@pytest.mark.parametrize("later", [0, 1])
def test_updates_take_turns_and_run_while_the_lanes_step(trained, monkeypatch, later):
    """The actor learns in one of the two: in which, depends on all updates of the run so far."""
    program, middle, _, _ = trained
    order = []

    learns = tuple(
        lambda *arguments, i=i, learn=learn: (order.append(f"learn {i}"), learn(*arguments))[1]
        for i, learn in enumerate(program.programs.learn)
    )
    monkeypatch.setattr(program, "programs", program.programs._replace(learn=learns))
    monkeypatch.setattr(program, "_env", watched(elsewhere(DotLanes(1)), order))
    counters = middle.counters._replace(updates=middle.counters.updates + later)
    middle = jax.tree.map(jnp.copy, middle._replace(counters=counters))
    first = int(counters.updates[0])
    program.train(program.resume(middle))
    turns = [f"learn {number % 2}" for number in range(first, first + CHUNK)]
    assert order == [event for turn in turns for event in ("send", turn, "receive")]


def test_an_engine_without_states_begins_new_episodes(trained, monkeypatch):
    program, middle, _, _ = trained
    lanes = elsewhere(DotLanes(1))
    lanes.can_restore = False
    monkeypatch.setattr(program, "_env", lanes)
    lanes.send(np.ones((1, 1), np.float32))
    lanes.receive()
    seeds, reset = [], lanes.reset
    lanes.reset = lambda drawn: (seeds.append(drawn), reset(drawn))[1]
    state = program.resume(jax.tree.map(jnp.copy, middle))
    env_frames = int(middle.counters.env_frames[0])
    expected = lane_seeds(program._seeds, env_frames, 1, training=True)
    np.testing.assert_array_equal(seeds, [expected])
    assert lanes.steps[0] == 0 and float(state.lanes.episode_return[0, 0]) == 0
    assert int(state.replay.num_frames[0, 0]) == int(middle.replay.num_frames[0, 0]) + 1
    assert program.capture(state) is state
    state, metrics = program.train(state)
    assert metrics["episode_length_mean"][0] == EPISODE


def test_training_goes_on_while_an_evaluation_is_played(trained, monkeypatch):
    program, _, _, _ = trained
    start_evaluation, train, goes_on = program.start_evaluation, program.train, threading.Event()

    def evaluate_meanwhile(state, film=None):
        play = start_evaluation(state, film)

        def wait_and_play():
            assert goes_on.wait(60)
            return play()

        return wait_and_play

    def train_and_tell(state):
        after = train(state)
        goes_on.set()
        return after

    monkeypatch.setattr(program, "start_evaluation", evaluate_meanwhile)
    monkeypatch.setattr(program, "train", train_and_tell)
    monkeypatch.setattr(program, "compile", lambda state: None)
    config = resolve("pendulum_swingup", preset="debug")
    session = Session(dataclasses.replace(config, seeds=1, steps=2 * CHUNK * 2), program)
    session.begin()
    session.run(stopped=lambda: False)
    assert session.complete and goes_on.is_set()


@pytest.mark.slow
def test_several_lanes_of_a_seed_share_its_replay():
    """Frames of each lane in a ring of its own, as the lanes showed them; the seed learns."""
    program, made = make([1, 2], lanes=2)
    state = start(program, [1, 2])
    frames = [made[0]._frame()]
    receive = made[0].receive
    made[0].receive = lambda: (frames.append((step := receive()).final_frame), step)[1]
    for _ in range(3):
        state, metrics = program.train(state)
    steps = 3 * CHUNK
    np.testing.assert_array_equal(state.counters.agent_steps, 2 * steps)
    np.testing.assert_array_equal(state.counters.updates, steps - INITIAL // 2)
    written = steps + 1 + steps // EPISODE
    np.testing.assert_array_equal(state.replay.num_frames, written)
    stored = np.asarray(state.replay.frames.all())
    rows = stored.shape[2]
    # The first frame of an episode is written after the last one of the episode before.
    for step in range(steps - 2 * EPISODE, steps):
        number = (step + 1 + step // EPISODE) % rows
        np.testing.assert_array_equal(
            stored[:, :, number], frames[step + 1].reshape(2, 2, *frames[0].shape[1:])
        )
    assert (metrics["reward_mean"] > 0.6).all()
    assert program.start_evaluation(state)().return_mean.min() > 0.5 * EPISODE


def test_close_ends_every_lane():
    program, made = make([1])
    state = program.init(jnp.asarray([1], jnp.int32))
    program.start_evaluation(state)
    program.close()
    assert len(made) == 2 and all(env.closed for env in made)
