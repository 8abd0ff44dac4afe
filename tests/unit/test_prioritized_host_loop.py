"""Rainbow in the host loop: its replay, its schedule of updates, and that it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.rainbow.learner import make_learner
from re3_jax.commands import profile
from re3_jax.intrinsic.base import none
from re3_jax.intrinsic.re3 import from_config
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.training.host_functions import SeedFunctions
from re3_jax.training.host_loop import HostProgram
from tests.probe_host_env import GREY_SIZE, LINE, GreyLanes, grey_spec, watched

CHUNK, LANES = 50, 2

CONFIG = RainbowConfig(
    torso="data_efficient",
    hidden_dim=32,
    num_atoms=11,
    v_min=0.0,
    v_max=2.0,
    noise=0.5,
    discount=0.9,
    n_steps=2,
    learning_rate=1e-3,
    target_every=20,
    replay_capacity=600,
    initial_agent_steps=100,
    agent_steps_per_update=4,
    anneal_agent_steps=1_000,
    num_envs=LANES,
    reward_clip=0.5,
)


def make(seeds, bonus=None):
    made = []

    def make_env(lanes):
        made.append(GreyLanes(lanes))
        return made[-1]

    program = HostProgram(
        make_learner(CONFIG, grey_spec(), bonus or none()),
        make_env,
        seeds=seeds,
        chunk_agent_steps=CHUNK,
        eval_episodes=3,
        eval_greedy=True,
    )
    return program, made


def start(program, seeds):
    state = program.init(jnp.asarray(seeds, jnp.int32))
    program.compile(state)
    return state


@pytest.fixture(scope="module")
def trained():
    """Eight chunks of two seeds with RE3; the lanes record what they show."""
    re3 = RE3Config(
        ring_size=CONFIG.replay_capacity,
        latent_dim=8,
        image_input="stacked_crop",
        image_crop=GREY_SIZE,
        beta=0.01,
    )
    program, made = make([1, 2], from_config(re3))
    first, metrics = made, []
    state = start(program, [1, 2])
    for _ in range(8):
        state, m = program.train(state)
        metrics.append(m)
    return program, first[0], state, metrics


def test_counters_follow_chunks_and_updates(trained):
    program, _, state, metrics = trained
    steps = 8 * CHUNK * LANES
    np.testing.assert_array_equal(state.counters.agent_steps, steps)
    np.testing.assert_array_equal(state.counters.env_frames, 4 * steps)
    assert program.env_frames_per_chunk == 4 * CHUNK * LANES
    np.testing.assert_array_equal(state.counters.updates, (steps - 100) // 4)
    assert np.isnan(metrics[0]["loss"]).all() and np.isfinite(metrics[1]["loss"]).all()
    assert (metrics[1]["intrinsic_reward_mean"] > 0).all()
    # All places of the dot, including the right end.
    np.testing.assert_array_equal(metrics[-1]["screens_seen"], LINE + 1)


def test_what_is_stored_is_what_the_lanes_showed(trained):
    """Each frame once, clipped rewards, a lost life as the task's end, ages since then."""
    _, env, state, _ = trained
    replay, steps = jax.device_get(state.replay), env.seen[: 8 * CHUNK]
    rows = CONFIG.replay_capacity // LANES
    assert rows < len(steps)
    for t in range(len(steps) - rows + 1, len(steps)):
        row, before, now = t % rows, steps[t - 1], steps[t]
        for seed in range(2):
            for lane in range(LANES):
                i = seed * LANES + lane
                at = (seed, row, lane)
                np.testing.assert_array_equal(
                    replay.frames.all()[seed, row * LANES + lane], before.frame[i]
                )
                assert replay.reward[at] == min(now.reward[i], 0.5)
                assert replay.terminated[at] == now.task_ended[i]
                assert replay.truncated[at] == (now.truncated[i] and not now.task_ended[i])
                if before.task_ended[i] or before.truncated[i]:
                    assert replay.age[at] == 0
    assert any(step.truncated.any() for step in steps)
    assert any((step.task_ended & ~step.terminated).any() for step in steps)


@pytest.mark.slow
def test_a_lost_life_clears_the_acting_stack(trained):
    """With zeros, as in stacks from the replay; the game itself continues."""
    program, env, state, _ = trained
    lost = np.arange(LANES) == 0
    step = jax.tree.map(lambda x: np.array(x[:LANES]), env.seen[0])._replace(
        terminated=np.zeros(LANES, bool), truncated=np.zeros(LANES, bool), task_ended=lost
    )
    one = jax.tree.map(lambda leaf: leaf[0], state)
    observation = jnp.full((LANES, GREY_SIZE, GREY_SIZE, 2), 7, jnp.uint8)
    after, (totals, _) = SeedFunctions(program.learner).store(
        one._replace(memory=observation), jnp.zeros(LANES, jnp.int32), step
    )
    np.testing.assert_array_equal(after.memory[0, ..., 0], 0)
    np.testing.assert_array_equal(after.memory[1, ..., 0], 7)
    np.testing.assert_array_equal(after.memory[..., 1:], step.frame)
    assert totals.episodes == 0


def test_episodes_are_whole_games(trained):
    """Both lives of a game count as one episode."""
    _, env, _, metrics = trained
    ended = sum(int((s.terminated | s.truncated).sum()) for s in env.seen[: 8 * CHUNK])
    assert ended == sum(int(m["episodes"].sum()) for m in metrics)
    paid = sum(float(s.reward.sum()) for s in env.seen[:CHUNK])
    np.testing.assert_allclose(
        metrics[0]["reward_mean"].mean() * CHUNK * 2 * LANES, paid, rtol=1e-5
    )


def test_every_slot_has_its_latent(trained):
    _, _, state, _ = trained
    ring = state.intrinsic.bonus.ring
    np.testing.assert_array_equal(ring.num_valid, CONFIG.replay_capacity)
    frames = np.asarray(state.replay.frames.all())[:, : CONFIG.replay_capacity]
    frames = frames.reshape(2, CONFIG.replay_capacity, -1)
    ages = np.asarray(state.replay.age).reshape(2, -1)
    latents = np.asarray(ring.latents)
    # All games begin with the same observation.
    for seed in range(2):
        (first,) = np.nonzero((ages[seed] == 0) & (frames[seed, :, 0] == 255))
        assert len(first) > 10
        assert np.abs(latents[seed, first] - latents[seed, first[0]]).max() < 1e-5
        assert np.abs(latents[seed] - latents[seed, first[0]]).max() > 1e-3


def test_it_learns(trained):
    program, _, state, metrics = trained
    assert metrics[-1]["reward_mean"].mean() > 2 * metrics[0]["reward_mean"].mean()
    stats = program.start_evaluation(state)()
    # Two lives of LINE steps, each paid 1.
    np.testing.assert_array_equal(stats.return_mean, 2.0)
    np.testing.assert_array_equal(stats.length_mean, 2 * LINE)


def test_updates_run_while_the_lanes_step(trained, monkeypatch):
    program, _, state, _ = trained
    order = []

    learns = tuple(
        lambda *arguments, learn=learn: (order.append("learn"), learn(*arguments))[1]
        for learn in program.programs.learn
    )
    monkeypatch.setattr(program, "programs", program.programs._replace(learn=learns))
    monkeypatch.setattr(program, "_env", watched(GreyLanes(2 * LANES), order))
    state = program.resume(jax.tree.map(jnp.copy, state))
    program.train(state)
    # Two lanes per step, and one update every four agent steps.
    assert order == ["send", "learn", "receive", "send", "receive"] * (CHUNK // 2)


def test_resuming_begins_new_games_and_no_transition_spans_two(trained, monkeypatch):
    program, _, state, _ = trained
    monkeypatch.setattr(program, "_env", GreyLanes(2 * LANES))
    before = jax.tree.map(jnp.copy, state)
    last = (np.asarray(before.replay.num_frames) - 1) % (CONFIG.replay_capacity // LANES)
    state = program.resume(before)
    replay = jax.device_get(state.replay)
    for seed in range(2):
        ended = replay.terminated[seed, last[seed]] | replay.truncated[seed, last[seed]]
        assert ended.all()
    np.testing.assert_array_equal(state.lanes.episode_length, 0)
    np.testing.assert_array_equal(state.memory[..., 0], 0)
    state, _ = program.train(state)
    replay = jax.device_get(state.replay)
    for seed in range(2):
        assert (replay.age[seed, (last[seed] + 1) % (CONFIG.replay_capacity // LANES)] == 0).all()
        row = last[seed]
        leaves = replay.tree.levels[0][seed].reshape(-1)[row * LANES : (row + 1) * LANES]
        np.testing.assert_array_equal(leaves[replay.truncated[seed, row]], 0)


def test_a_profile_counts_updates_per_step(trained):
    """Two lanes, one update every four agent steps."""
    program, *_ = trained
    assert profile.updates_per_step(program.learner, 1_000) == 0.5
