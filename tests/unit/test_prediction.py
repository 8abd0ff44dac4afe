"""Open-loop predictions: their inputs, and the layout of truth, prediction and error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.agents.dreamer import networks, prediction
from re3_jax.agents.dreamer.agent import SequenceBatch
from re3_jax.agents.dreamer.config import DreamerConfig

SIZE, TIME, CONTEXT = 2, 5, 3


@pytest.fixture(scope="module")
def model():
    config = DreamerConfig(deter=8, stoch=3, hidden=8, conv_depth=2)
    return networks.init_model(jax.random.key(0), config, 2, 3)


def make_batch(seed=0):
    rng = np.random.default_rng(seed)
    return SequenceBatch(
        frames=rng.integers(0, 256, (SIZE, TIME, 64, 64, 3)).astype(np.uint8),
        action=rng.uniform(-1, 1, (SIZE, TIME, 2)).astype(np.float32),
        reward=np.zeros((SIZE, TIME), np.float32),
        discount=np.ones((SIZE, TIME), np.float32),
    )


def test_frames_after_the_context_are_not_looked_at_and_actions_are(model):
    predict = jax.jit(prediction.open_loop, static_argnums=3)
    batch, key = make_batch(), jax.random.key(1)
    first = predict(model, batch, key, CONTEXT)
    assert first.shape == (SIZE, TIME, 64, 64, 3)
    other_frames = batch.frames.copy()
    other_frames[:, CONTEXT:] = 0
    same = predict(model, batch._replace(frames=other_frames), key, CONTEXT)
    np.testing.assert_array_equal(same, first)
    other_frames[:, CONTEXT - 1] = 0
    changed = predict(model, batch._replace(frames=other_frames), key, CONTEXT)
    differs = np.abs(np.asarray(changed - first)).max((0, 2, 3, 4)) > 0
    assert differs.tolist() == [False, False, True, True, True]
    other_action = batch.action.copy()
    other_action[:, CONTEXT] += 1
    changed = predict(model, batch._replace(action=other_action), key, CONTEXT)
    differs = np.abs(np.asarray(changed - first)).max((0, 2, 3, 4)) > 0
    assert differs.tolist() == [False, False, False, True, True]


def test_truth_above_prediction_above_error():
    batch = make_batch()
    shown = np.asarray(prediction.comparison(batch, jnp.zeros((SIZE, TIME, 64, 64, 3))))
    assert (shown.shape, shown.dtype) == ((TIME, 3 * 64, SIZE * 64, 3), np.uint8)
    for i in range(SIZE):
        column = shown[:, :, 64 * i : 64 * (i + 1)]
        np.testing.assert_array_equal(column[:, :64], batch.frames[i])
        np.testing.assert_array_equal(column[:, 64:128], 128)
        expected = (0.5 - batch.frames[i] / 255 + 1) / 2 * 255
        np.testing.assert_allclose(column[:, 128:], expected, atol=0.51)
    right = prediction.comparison(batch, networks.preprocess(batch.frames))
    np.testing.assert_array_equal(right[:, 128:], 128)
