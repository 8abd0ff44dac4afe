"""ICM's reward, losses, gradient and whole updates against PyTorch, from the same weights."""

import jax
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from re3_jax.intrinsic.icm import ICMConfig, ICMParams, icm
from tests.prediction_tasks import BATCH, SIZES, TASKS, centre, make_batch, start
from tests.torch_oracle import layers, weights

ADAM_BETA1 = 0.9


def torch_errors(params, batch):
    """Forward and inverse error of each transition, and the prediction of the action."""
    features = layers.encode(params.encoder, centre(batch.observation))
    following = layers.encode(params.encoder, centre(batch.next_observation))
    predicted = layers.mlp(params.inverse.layers, torch.cat([features, following], dim=1))
    action = torch.tensor(np.array(batch.action))
    if action.dtype == torch.int32:
        inverse = F.cross_entropy(predicted, action.long(), reduction="none")
        action = F.one_hot(action.long(), predicted.shape[1]).double()
    else:
        action = action.flatten(1).double()
        inverse = torch.linalg.vector_norm(action - predicted, dim=1)
    imagined = layers.mlp(params.forward, torch.cat([features, action], dim=1))
    forward = 0.5 * ((following - imagined) ** 2).sum(dim=1)
    return forward, inverse, predicted


@pytest.mark.parametrize("task", TASKS)
def test_rewards_gradient_and_updates_equal_pytorch(task):
    """The forward error as reward, 0.2 forward + 0.8 inverse as loss, and Adam's steps."""
    bonus = icm(ICMConfig(**SIZES, learning_rate=1e-3))
    state = start("icm", task)
    params = weights.as_tensors(state.params)
    optimizer = weights.adam(params, 1e-3)

    @jax.jit
    def step(state, batch, key):
        reward, state, info = bonus.reward(state, batch)
        state, more = bonus.update(state, batch, key)
        return reward, state, info | more

    for number in range(3):
        batch = make_batch(task, seed=number)
        with torch.no_grad():
            features = layers.encode(params.encoder, centre(batch.observation)).numpy()
        optimizer.zero_grad()
        forward, inverse, predicted = torch_errors(params, batch)
        (0.2 * forward.mean() + 0.8 * inverse.mean()).backward()
        optimizer.step()
        reward, state, info = step(state, batch, jax.random.key(number))
        assert forward.std() > 0.03
        np.testing.assert_allclose(reward, forward.detach().numpy(), rtol=1e-4)
        np.testing.assert_allclose(info["icm_forward_loss"], forward.mean().item(), rtol=1e-4)
        np.testing.assert_allclose(info["icm_inverse_loss"], inverse.mean().item(), rtol=1e-4)
        np.testing.assert_allclose(info["icm_feature_std"], features.std(axis=0).mean(), rtol=1e-4)
        if batch.action.dtype == np.int32:
            right = (predicted.argmax(dim=1).numpy() == np.asarray(batch.action)).sum()
            np.testing.assert_allclose(info["icm_inverse_accuracy"], right / BATCH, rtol=1e-6)
        if number == 0:
            # Adam's first moment after one step from zero.
            gradient = jax.tree.map(lambda m: m / (1 - ADAM_BETA1), state.opt_state[0].mu)
            assert isinstance(gradient, ICMParams)
            weights.assert_close(gradient, weights.gradients(params), rtol=1e-3, atol=1e-5)
        # Adam divides by the root of the squared gradient, so where rounding dominates it, the
        # direction of a step is arbitrary: 3e-5 is a thirtieth of a step.
        weights.assert_close(state.params, weights.values(params), atol=3e-5)
