"""Dreamer in the device loop: a world model of pixels, and a policy that learns only in it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.dreamer import imagination
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.learner import check_sizes, make_learner
from re3_jax.agents.dreamer.re3 import sequence_re3
from re3_jax.envs.device import bar
from re3_jax.intrinsic.base import none
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.training.off_policy import make_off_policy_program

pytestmark = pytest.mark.slow

LENGTH, CHUNK, CHUNKS, SEEDS = 12, 120, 3, 1
ENV = bar.make(LENGTH)
CONFIG = DreamerConfig(
    deter=32,
    stoch=8,
    hidden=32,
    conv_depth=4,
    head_units=32,
    batch_size=8,
    sequence_length=8,
    horizon=6,
    discount=0.9,
    free_nats=0.5,
    model_learning_rate=2e-3,
    actor_learning_rate=4e-4,
    value_learning_rate=1e-3,
    mode_samples=20,
    replay_capacity=4_000,
    prefill_env_frames=480,
    env_frames_per_burst=24,
    updates_per_burst=6,
    num_envs=2,
)
RE3 = RE3Config(
    first_neighbour=9,
    last_neighbour=9,
    log1p=False,
    latent_dim=10,
    encoder_init="xavier",
    beta=0.1,
    ring_size=CONFIG.replay_capacity,
)


def make(bonus=None, config=CONFIG):
    return make_off_policy_program(
        ENV,
        make_learner(config, ENV.spec, bonus or none()),
        chunk_steps=CHUNK,
        eval_episodes=10,
        eval_greedy=True,
    )


def train(program, chunks):
    state, metrics = program.init(jnp.arange(SEEDS)), []
    for _ in range(chunks):
        state, m = program.train(state)
        metrics.append(jax.device_get(m))
    return state, metrics


@pytest.fixture(scope="module")
def trained():
    program = make()
    return program, *train(program, CHUNKS)


def test_the_world_model_and_the_policy_learn(trained):
    """The best return is 11.6; a policy that ignores its observations gets half of it."""
    program, state, metrics = trained
    early, late = metrics[0], metrics[-1]
    assert (late["image_loss"] < 0.5 * early["image_loss"]).all()
    assert (late["reward_loss"] < early["reward_loss"]).all()
    assert (late["kl"] > CONFIG.free_nats).all() and (late["kl"] < 50).all()
    assert (program.evaluate(state).return_mean > 10.5).all()
    np.testing.assert_array_equal(program.evaluate(state).length_mean, LENGTH)


@pytest.fixture(scope="module")
def blind():
    """The same program with RE3 and without the gradient through imagination."""

    def imagine(*arguments):
        return jax.lax.stop_gradient(real(*arguments))

    real, bonus = imagination.imagine, sequence_re3(RE3, "layer_norm_then_tanh", CONFIG.conv_depth)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(imagination, "imagine", imagine)
        program = make(bonus)
        return program, *train(program, CHUNKS)


def test_nothing_is_learned_without_the_gradient_through_imagination(blind):
    program, state, metrics = blind
    assert (metrics[-1]["reward_loss"] < metrics[1]["reward_loss"]).all()
    assert (metrics[-1]["actor_gradient_norm"] == 0).all()
    assert (program.evaluate(state).return_mean < 9).all()


def test_re3_is_added_to_the_rewards_that_are_learned(blind):
    _, _, metrics = blind
    assert (metrics[-1]["intrinsic_reward_mean"] > 0.01).all()


def test_bursts_follow_env_frames(trained):
    """Two lanes, two frames per step: 480 frames per chunk, and the first burst after the 480th."""
    _, state, metrics = trained
    np.testing.assert_array_equal(state.counters.agent_steps, CHUNKS * CHUNK * 2)
    np.testing.assert_array_equal(state.counters.env_frames, CHUNKS * CHUNK * 4)
    bursts = 1 + (CHUNKS - 1) * CHUNK * 4 // CONFIG.env_frames_per_burst
    np.testing.assert_array_equal(state.counters.updates, bursts * CONFIG.updates_per_burst)
    assert np.isfinite(metrics[0]["image_loss"]).all()


@pytest.mark.parametrize("lanes", [1, 16, 64])
def test_a_step_of_many_lanes_makes_up_for_every_burst(lanes):
    """Lanes that take more frames in a step than lie between two bursts."""
    config = dataclasses.replace(CONFIG, num_envs=lanes, prefill_env_frames=24 * lanes)
    due, steps = make_learner(config, ENV.spec, none()).updates_due, 100
    updates = sum(due(lanes * step, lanes * (step + 1)) for step in range(steps))
    every, before = config.env_frames_per_burst, config.prefill_env_frames - 2 * lanes
    bursts = steps * lanes * 2 // every - before // every
    assert updates == bursts * config.updates_per_burst


def test_rewards_are_stored_with_the_frames_they_came_with(trained):
    """Rewards belong to the frames they came with; first frames have neither action nor reward."""
    _, state, _ = trained
    replay = jax.device_get(state.replay)
    written = int(replay.num_frames[0, 0])
    assert written == CHUNKS * CHUNK * (LENGTH + 1) // LENGTH + 1
    first = np.arange(written) % (LENGTH + 1) == 0
    row = replay.frames.all()[:, :, :written][:, :, ~first][..., 32, :, :]
    is_bar = row[..., 1] == 255
    is_red = (row[..., 0] == 255).all(-1)
    place = (is_bar * np.arange(64)).sum(-1) / is_bar.sum(-1) / 63
    # A bar at either end is only partly visible, so its visible middle is elsewhere.
    whole = is_bar.sum(-1) >= 11
    expected = np.where(is_red, place, 1 - place)
    paid, action = replay.reward[:, :, :written], replay.action[:, :, :written]
    assert 0.2 < is_red.mean() < 0.8 and whole.mean() > 0.2
    np.testing.assert_allclose(paid[:, :, ~first][whole], expected[whole], atol=0.02)
    assert (paid[:, :, first] == 0).all()
    assert (action[:, :, first] == 0).all()
    assert (action[:, :, ~first] != 0).all()
    # The belief about the next frame holds the action that is about to be taken.
    np.testing.assert_array_equal(state.memory.belief.action, state.lanes.action)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sequence_length": 13}, "lower sequence_length"),
        ({"replay_capacity": 49}, "raise replay_capacity to 50"),
        ({"prefill_env_frames": 47}, "raise prefill_env_frames to 48"),
    ],
)
def test_a_replay_without_a_sequence_is_refused(change, sentence):
    check_sizes(CONFIG, ENV.spec)
    with pytest.raises(ValueError, match=sentence):
        check_sizes(dataclasses.replace(CONFIG, **change), ENV.spec)
