"""RND's reward, gradient and whole updates against PyTorch, from the same weights."""

import jax
import numpy as np
import pytest
import torch

from re3_jax.intrinsic.rnd import Predictor, RNDConfig, rnd
from tests.prediction_tasks import SIZES, centre, make_batch, start
from tests.torch_oracle import layers, weights

ADAM_BETA1 = 0.9


def torch_errors(target, predictor, observation):
    with torch.no_grad():
        wanted = layers.encode(target, observation)
    predicted = layers.mlp(predictor.head, layers.encode(predictor.encoder, observation))
    return torch.linalg.vector_norm(wanted - predicted, dim=1)


@pytest.mark.parametrize(
    ("task", "rewarded"),
    [("views", "current"), ("views", "next"), ("pixels", "current"), ("joints", "current")],
)
def test_rewards_gradient_and_updates_equal_pytorch(task, rewarded):
    """The distance as reward, its mean as loss, and Adam's steps on several batches."""
    bonus = rnd(RNDConfig(**SIZES, rewarded=rewarded, learning_rate=1e-3))
    state = start("rnd", task)
    target, predictor = map(weights.as_tensors, (state.target, state.predictor))
    optimizer = weights.adam(predictor, 1e-3)

    @jax.jit
    def step(state, batch, key):
        reward, state, info = bonus.reward(state, batch)
        state, more = bonus.update(state, batch, key)
        return reward, state, info | more

    for number in range(3):
        batch = make_batch(task, seed=number)
        seen = centre(batch.observation if rewarded == "current" else batch.next_observation)
        optimizer.zero_grad()
        errors = torch_errors(target, predictor, seen)
        errors.mean().backward()
        optimizer.step()
        reward, state, info = step(state, batch, jax.random.key(number))
        expected = errors.detach().numpy()
        assert expected.std() > 0.03
        np.testing.assert_allclose(reward, expected, rtol=1e-4)
        np.testing.assert_allclose(info["rnd_loss"], expected.mean(), rtol=1e-5)
        latents = layers.encode(target, seen).detach().numpy()
        np.testing.assert_allclose(info["rnd_target_std"], latents.std(axis=0).mean(), rtol=1e-4)
        if number == 0:
            # Adam's first moment after one step from zero.
            gradient = jax.tree.map(lambda m: m / (1 - ADAM_BETA1), state.opt_state[0].mu)
            assert isinstance(gradient, Predictor)
            weights.assert_close(gradient, weights.gradients(predictor), rtol=1e-3, atol=1e-5)
        # Adam divides by the root of the squared gradient, so where rounding dominates it, the
        # direction of a step is arbitrary: 3e-5 is a thirtieth of a step.
        weights.assert_close(state.predictor, weights.values(predictor), atol=3e-5)
    weights.assert_close(state.target, weights.values(target), rtol=0, atol=0)
