"""Dreamer with every bonus: which steps are rewarded, and the inputs of each bonus."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.dreamer.learner import reward_sequences
from re3_jax.intrinsic.base import none
from re3_jax.replay import sequence_ring
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.build import device_program, make_environment
from re3_jax.runs.options import parse

LENGTH, LANES, SEEDS = 4, 2, 2


def test_a_frame_gets_the_reward_of_the_step_that_left_it():
    """Observation, action, next observation and index belong to the same step."""
    rng = np.random.default_rng(0)
    replay = sequence_ring.init(80, LANES, (1, 1, 1), 1, LENGTH)
    frame = np.arange(LANES)
    replay = sequence_ring.begin(replay, jnp.asarray(frame[:, None, None, None], jnp.uint8))
    add = jax.jit(lambda *step: sequence_ring.add(*step, length=LENGTH))
    steps, number = {}, LANES
    for t in range(60):
        action, done = rng.normal(size=LANES).astype(np.float32), rng.random(LANES) < 0.1
        final = number + np.arange(LANES)
        number += LANES
        after = np.where(done, number + np.arange(LANES), final)
        number += LANES
        index = 1000 + LANES * t + np.arange(LANES)
        for lane in range(LANES):
            steps[frame[lane]] = float(action[lane]), final[lane], index[lane]
        images = [jnp.asarray(x[:, None, None, None] % 256, jnp.uint8) for x in (after, final)]
        never, zeros = np.zeros(LANES, bool), np.zeros(LANES, np.float32)
        replay = add(replay, action[:, None], zeros, never, *images, done, index)
        frame = after
    assert number < 256
    rewarded = []

    def reward(state, batch):
        rewarded.append(jax.device_get(batch))
        return batch.observation.reshape(-1).astype(jnp.float32), state, {}

    drawn = sequence_ring.sample(jax.random.key(0), replay, 50, LENGTH)
    bonus = none()._replace(reward=reward)
    batch, _, _ = reward_sequences(bonus, (), drawn, jnp.int32(0), jax.random.key(0))
    np.testing.assert_array_equal(batch.reward, batch.frames[..., 0, 0, 0])
    (found,) = rewarded
    for observation, action, following, index in zip(
        found.observation.reshape(-1).tolist(),
        found.action.reshape(-1).tolist(),
        found.next_observation.reshape(-1).tolist(),
        found.bonus_index.tolist(),
        strict=True,
    ):
        assert steps[observation] == (action, following, index)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bonus",
    [
        *(b.name for b in BONUSES.values() if not (b.weights or b.counts_states or b.needs_value)),
        "re3+rnd",
    ],
)
def test_every_bonus_rewards_the_drawn_transitions(bonus):
    """Traced, not run: pixels of one frame, real-valued actions, whole episodes."""
    argv = ["--env", "pixels:bar", "--preset", "debug", "--bonus", bonus, "--seeds", str(SEEDS)]
    config = parse([*argv, "--chunk-updates", "2"])
    program = device_program(config, make_environment(config.env))
    state = jax.eval_shape(program.init, jax.ShapeDtypeStruct((SEEDS,), jnp.int32))
    after, metrics = jax.eval_shape(program.train, state)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert metrics["intrinsic_reward_mean"].shape == (SEEDS,)
    assert metrics["image_loss"].shape == (SEEDS,)
