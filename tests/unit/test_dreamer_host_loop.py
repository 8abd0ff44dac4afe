"""Dreamer in the host loop: replay, beliefs, learning and resuming."""

import dataclasses
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.dreamer.agent import Dreamer
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.learner import make_learner
from re3_jax.agents.dreamer.re3 import encoder_from, sequence_re3
from re3_jax.agents.reward_free import reward_free
from re3_jax.envs.base import LaneStep
from re3_jax.intrinsic.base import none
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.replay import sequence_ring
from re3_jax.training.host_evaluation import lane_seeds
from re3_jax.training.host_functions import SeedFunctions, step_key
from re3_jax.training.host_loop import HostProgram
from tests.equal import equal_arrays
from tests.probe_host_env import EPISODE, DotLanes, spec

SIZE, CHUNK, CHUNKS, REPEAT, SEEDS = 64, 25, 4, 2, [1, 2]

CONFIG = DreamerConfig(
    deter=8,
    stoch=3,
    hidden=8,
    conv_depth=2,
    head_units=8,
    batch_size=4,
    sequence_length=5,
    horizon=3,
    mode_samples=5,
    replay_capacity=200,
    prefill_env_frames=40,
    env_frames_per_burst=30,
    updates_per_burst=3,
)

RE3 = RE3Config(
    first_neighbour=3,
    last_neighbour=3,
    log1p=False,
    latent_dim=8,
    encoder_init="xavier",
    beta=0.1,
    ring_size=CONFIG.replay_capacity,
)
ORDER = "tanh_then_layer_norm"


def make(bonus=None, withheld=False, chunk=CHUNK):
    learner = make_learner(CONFIG, spec(stack=1, size=SIZE), bonus or none())
    return HostProgram(
        reward_free(learner) if withheld else learner,
        lambda lanes: DotLanes(lanes, SIZE),
        seeds=SEEDS,
        chunk_agent_steps=chunk,
        eval_episodes=3,
        eval_greedy=True,
    )


def to_numpy(state):
    return jax.tree.map(
        lambda leaf: np.asarray(
            jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        ),
        state,
    )


@pytest.fixture(scope="module")
def trained():
    """Four chunks of two seeds with RE3; the state is captured after the second."""
    program = make(sequence_re3(RE3, ORDER, CONFIG.conv_depth))
    state, metrics = program.init(jnp.asarray(SEEDS, jnp.int32)), []
    program.compile(state)
    for i in range(CHUNKS):
        if i == 2:
            middle = jax.tree.map(jnp.copy, program.capture(state))
        state, m = program.train(state)
        metrics.append(m)
    return program, middle, program.capture(state), metrics


def test_a_time_limit_is_not_stored_as_the_end_of_the_task():
    """Of two lanes the first ends the task, the second meets the limit."""
    learner = make_learner(
        dataclasses.replace(CONFIG, num_envs=2), spec(stack=1, size=SIZE), none()
    )
    frame = jnp.zeros((2, SIZE, SIZE, 3), jnp.uint8)
    terminated, truncated = jnp.eye(2, dtype=bool)
    step = LaneStep(frame, jnp.ones(2), terminated, truncated, frame, terminated)
    state = learner.init(jax.random.key(0), frame)
    state = jax.jit(learner.store)(state, jnp.zeros((2, 1)), step)
    np.testing.assert_array_equal(state.replay.discount[:, 1], [0.0, 1.0])


def test_bursts_follow_env_frames(trained):
    """Bursts come after 60, 90, 120, 150 and 180 of 200 frames; 30 is still in the prefill."""
    _, _, state, metrics = trained
    np.testing.assert_array_equal(state.counters.env_frames, CHUNKS * CHUNK * REPEAT)
    np.testing.assert_array_equal(state.counters.updates, 5 * CONFIG.updates_per_burst)
    assert np.isnan(metrics[0]["image_loss"]).all()
    assert np.isfinite(metrics[1]["image_loss"]).all()
    assert (metrics[1]["intrinsic_reward_mean"] > 0.01).all()


def test_the_image_loss_is_that_of_one_image(trained):
    """An image of a dot is 12,288 numbers near -0.5; its loss sums half their squares."""
    _, _, _, metrics = trained
    np.testing.assert_allclose(metrics[1]["image_loss"], 0.5 * 0.25 * SIZE * SIZE * 3, rtol=0.05)


def test_rewards_belong_to_the_frames_they_came_with(trained):
    """The dot's place is the reward; first frames of episodes have zero action and reward."""
    _, _, state, _ = trained
    replay = jax.device_get(state.replay)
    written = int(replay.num_frames[0, 0])
    assert written == 1 + CHUNKS * CHUNK + CHUNKS * CHUNK // EPISODE
    lit = replay.frames.all()[:, 0, :written, 8, :, 0] == 255
    place = (lit * np.arange(SIZE)).sum(-1) / lit.sum(-1) / (SIZE - 1)
    first = np.arange(written) % (EPISODE + 1) == 0
    whole = lit.sum(-1) == 3
    paid, action = replay.reward[:, 0, :written], replay.action[:, 0, :written]
    assert (whole & ~first).sum() > 50
    np.testing.assert_allclose(
        paid[whole & ~first[None]], place[whole & ~first[None]], atol=1 / SIZE
    )
    assert (paid[:, first] == 0).all() and (action[:, first] == 0).all()
    assert (action[:, ~first] != 0).all()


def test_every_frame_that_can_be_drawn_has_its_latent(trained):
    """A frame is encoded once, when the agent acts on it."""
    _, _, state, _ = trained
    encode = jax.jit(encoder_from(RE3, ORDER, CONFIG.conv_depth).encode)
    sample = jax.jit(sequence_ring.sample, static_argnums=(2, 3))
    for seed in range(len(SEEDS)):
        of_seed = jax.tree.map(operator.itemgetter(seed), (state.replay, state.intrinsic.bonus))
        replay, bonus = of_seed
        drawn = sample(jax.random.key(seed), replay, 40, CONFIG.sequence_length)
        frames = drawn.frames[:, :-1].reshape(-1, SIZE, SIZE, 3)
        stored = bonus.ring.latents[drawn.bonus_index.reshape(-1)]
        np.testing.assert_allclose(stored, encode(bonus.encoder, frames), atol=1e-5)
        assert np.ptp(stored, axis=0).min() > 0.1
        np.testing.assert_array_equal(bonus.ring.num_valid, CHUNKS * CHUNK)


def test_nothing_is_believed_before_the_policy_acts():
    """The first 20 agent steps are random; after 27 the second episode is under way."""
    program, is_zero = make(chunk=9), []
    state = program.init(jnp.asarray(SEEDS, jnp.int32))
    program.compile(state)
    for _ in range(3):
        state, _ = program.train(state)
        leaves = jax.tree.leaves(program.capture(state).memory.belief)
        is_zero.append(not any(np.any(leaf) for leaf in leaves))
    assert is_zero == [True, True, False]


def test_what_is_believed_ends_with_an_episode(trained):
    """The middle state is five steps into an episode, the last one at an episode's start."""
    _, middle, state, _ = trained
    for leaf in jax.tree.leaves(state.memory.belief):
        np.testing.assert_array_equal(leaf, 0)
    program, *_ = trained
    stepped = program.resume(jax.tree.map(jnp.copy, middle))
    stepped, _ = program.train(stepped)
    assert all((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(stepped.memory.belief))
    newest = np.asarray(stepped.replay.action[:, :, int(stepped.replay.num_frames[0, 0]) - 1])
    np.testing.assert_array_equal(stepped.memory.belief.action, newest)


def test_resumes_bit_for_bit(trained):
    program, middle, end, _ = trained
    state = program.resume(jax.tree.map(jnp.copy, middle))
    for _ in range(2):
        state, _ = program.train(state)
    jax.tree.map(equal_arrays, to_numpy(program.capture(state)), to_numpy(end))


def test_lanes_that_cannot_be_restored_begin_new_episodes(trained):
    """The frame is the new episode's first, and the belief is reset."""
    program, _, end, _ = trained
    frame = np.full((len(SEEDS), 1, SIZE, SIZE, 3), 7, np.uint8)
    after = jax.jit(jax.vmap(SeedFunctions(program.learner).restart))(end, frame)
    np.testing.assert_array_equal(after.memory.frame, frame)
    np.testing.assert_array_equal(after.replay.begins, end.replay.num_frames)
    lanes = after.lanes
    for leaf in jax.tree.leaves((after.memory.belief, lanes.episode_return, lanes.episode_length)):
        np.testing.assert_array_equal(leaf, 0)


def test_evaluations_carry_a_belief(trained):
    """Actions equal those of the agent called by hand, which depend on the belief."""
    program, _, state, _ = trained
    agent = jax.tree.map(lambda leaf: leaf[0], state.agent)
    lanes, dreamer = DotLanes(len(SEEDS) * 3, SIZE), Dreamer(CONFIG, program.spec)
    seen, send = [], lanes.send
    lanes.send = lambda action: (seen.append(action[:3].copy()), send(action))[1]
    program._evaluation_env = lanes
    stats = program.start_evaluation(state)()
    assert stats.length_mean.tolist() == [EPISODE] * len(SEEDS) and len(seen) == EPISODE
    belief = dreamer.begin(agent, 3)
    act = jax.jit(dreamer.act, static_argnums=4)
    frames = DotLanes(len(SEEDS) * 3, SIZE)

    env_frames = int(state.counters.env_frames[0])
    frame = frames.reset(lane_seeds(np.asarray(SEEDS), env_frames, 3))
    key = jax.random.fold_in(jax.random.key(SEEDS[0]), env_frames)
    for step in range(EPISODE):
        belief, action = act(agent, belief, frame[:3], step_key(key, step, 2), False)
        np.testing.assert_allclose(action, seen[step], atol=1e-4)
        frames.send(np.concatenate([seen[step], np.zeros((3, 1), np.float32)]))
        frame = frames.receive().frame


@pytest.mark.slow
def test_a_withheld_task_reward_is_recorded_but_not_stored():
    """The replay holds zeros; reported returns hold the task's rewards."""
    program = make(withheld=True)
    state = program.init(jnp.asarray(SEEDS, jnp.int32))
    program.compile(state)
    state, metrics = program.train(state)
    assert (np.asarray(state.replay.num_frames) > CHUNK).all()
    np.testing.assert_array_equal(state.replay.reward, 0)
    assert (metrics["reward_mean"] > 0.1).all()
