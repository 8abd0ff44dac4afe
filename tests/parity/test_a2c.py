"""One A2C update against PyTorch: loss, gradients and RMSprop step, from one rollout.

The oracle is torch-ac's algorithm, with its loops, written with `torch.nn` and `torch.optim`.
"""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.stats
import torch

from re3_jax.agents.a2c.agent import make_a2c, make_network
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.a2c.losses import a2c_loss
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.initializers import Layer
from tests.torch_oracle.layers import encode, linear, mlp
from tests.torch_oracle.weights import (
    as_tensors,
    assert_close,
    gradients,
    random_state,
    random_weights,
    values,
)

VIEWS = EnvSpec("probe:views", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 100)
VECTORS = EnvSpec("probe:vectors", (5,), np.dtype(np.float32), Discrete(7), 100)
STEPS, LANES = 8, 16


def torch_outputs(params, observation):
    """rl-starter-files' network without text and memory; two tanh layers before it for vectors."""
    parts = params["params"]
    trunk = parts["trunk"]
    if observation.ndim == 4:
        x = encode([Layer(trunk[f"kernel_{i}"], trunk[f"bias_{i}"]) for i in range(3)], observation)
    else:
        x = torch.tensor(np.asarray(observation, np.float64))
        for i in range(2):
            x = torch.tanh(linear(Layer(**trunk[f"Dense_{i}"]), x))

    def head(name):
        layers = [Layer(**parts[name][f"Dense_{i}"]) for i in range(2)]
        return mlp(layers, x, torch.tanh)

    return head("actor"), head("critic")[:, 0]


def make_rollout(spec, seed):
    rng = np.random.default_rng(seed)
    shape = (STEPS, LANES)
    terminated = rng.random(shape) < 0.1

    def observations(*axes):
        axes = *axes, *spec.observation_shape
        if spec is VIEWS:
            return rng.integers(0, 11, axes, dtype=np.uint8)
        return rng.normal(size=axes).astype(np.float32)

    return Rollout(
        observation=observations(*shape),
        action=rng.integers(0, 7, shape).astype(np.int32),
        reward=(rng.random(shape) * terminated).astype(np.float32),
        bonus=(0.1 * rng.random(shape)).astype(np.float32),
        terminated=terminated,
        truncated=rng.random(shape) < 0.1,
        next_observation=observations(*shape),
        last_observation=observations(LANES),
    )


def torch_loss(params, rollout, config):
    """torch-ac 1.1's `collect_experiences` and `update_parameters`, step by step."""

    def tensor(x):
        return torch.tensor(np.asarray(x, np.float64))

    reward, bonus = tensor(rollout.reward), tensor(rollout.bonus)
    if config.bonus_target == "reward":
        reward = reward + bonus
    with torch.no_grad():
        values = torch.stack([torch_outputs(params, seen)[1] for seen in rollout.observation])
        next_value = torch_outputs(params, rollout.last_observation)[1]
        final_values = torch.stack([torch_outputs(params, v)[1] for v in rollout.next_observation])
    advantages = torch.zeros(STEPS, LANES).double()
    for i in reversed(range(STEPS)):
        last = i == STEPS - 1
        for j in range(LANES):
            ends = bool(rollout.terminated[i, j] or rollout.truncated[i, j])
            follows = 0.0 if ends else (next_value[j] if last else values[i + 1, j])
            if config.bootstrap_truncation and ends and not rollout.terminated[i, j]:
                follows = final_values[i, j]
            after = 0.0 if ends or last else advantages[i + 1, j]
            delta = reward[i, j] + config.discount * follows - values[i, j]
            advantages[i, j] = delta + config.discount * config.gae_lambda * after
    if config.bonus_target == "advantage":
        advantages = advantages + bonus
    returns = values + advantages

    logits, value = torch_outputs(
        params, rollout.observation.reshape(STEPS * LANES, *rollout.observation.shape[2:])
    )
    policy = torch.distributions.Categorical(logits=logits)
    action = torch.tensor(rollout.action.reshape(-1))
    policy_loss = -(policy.log_prob(action) * advantages.reshape(-1)).mean()
    value_loss = (value - returns.reshape(-1)).pow(2).mean()
    return (
        policy_loss - config.entropy_coef * policy.entropy().mean() + config.value_coef * value_loss
    )


@pytest.mark.parametrize(
    ("spec", "bonus_target", "rmsprop_eps", "bootstrap_truncation"),
    [
        (VIEWS, "reward", 1e-2, False),
        (VIEWS, "advantage", 1e-8, False),
        (VIEWS, "reward", 1e-2, True),
        (VECTORS, "reward", 1e-2, True),
    ],
    ids=["paper", "released", "bootstrapped", "vectors"],
)
def test_two_updates_equal_pytorch(spec, bonus_target, rmsprop_eps, bootstrap_truncation):
    config = dataclasses.replace(
        A2CConfig(),
        bonus_target=bonus_target,
        bootstrap_truncation=bootstrap_truncation,
        rmsprop_eps=rmsprop_eps,
    )
    agent = make_a2c(config, spec)
    # As small as PyTorch draws them, because views of up to 10 saturate larger weights. With this
    # seed most ReLUs pass on a gradient.
    params = jax.tree.map(lambda leaf: 0.5 * leaf, random_weights(agent.init, seed=34).params)
    state = random_state(agent.init, params=params)
    theirs = as_tensors(state.params)
    optimizer = torch.optim.RMSprop(
        jax.tree.leaves(theirs), config.learning_rate, alpha=config.rmsprop_decay, eps=rmsprop_eps
    )
    network = make_network(config, spec)
    differentiate = jax.jit(
        lambda params, rollout: jax.grad(a2c_loss, has_aux=True)(params, network, rollout, config)
    )
    update = jax.jit(agent.update)

    for number in range(2):
        rollout = make_rollout(spec, number)
        optimizer.zero_grad()
        loss = torch_loss(theirs, rollout, config)
        loss.backward()
        gradient, info = differentiate(state.params, rollout)
        np.testing.assert_allclose(info["loss"], loss.item(), rtol=2e-5)
        assert_close(gradient, gradients(theirs), rtol=2e-3, atol=2e-5)
        norm = torch.nn.utils.clip_grad_norm_(jax.tree.leaves(theirs), config.max_grad_norm)
        optimizer.step()
        state, info = update(state, rollout)
        np.testing.assert_allclose(info["gradient_norm"], norm.item(), rtol=1e-4)

    # With eps 1e-8 an early RMSprop step is nearly sign(g): where g is rounding noise, so is
    # the step. Such entries are those whose accumulated square is at noise level.
    square = state.opt_state[1][0].nu

    def compare(ours, theirs, nu):
        certain = np.sqrt(nu) > 1e-5
        assert certain.mean() > 0.5
        np.testing.assert_allclose(np.asarray(ours)[certain], theirs[certain], rtol=1e-4, atol=2e-5)

    jax.tree.map(compare, state.params, values(theirs), square)


def test_each_unit_of_the_heads_begins_with_weights_of_norm_one():
    """As torch-ac's `init_params`, with biases of 0."""
    params = jax.jit(make_a2c(A2CConfig(), VIEWS).init)(jax.random.key(0)).params["params"]
    for name in ("actor", "critic"):
        for layer in params[name].values():
            np.testing.assert_allclose(np.linalg.norm(layer["kernel"], axis=0), 1, rtol=1e-5)
            # Coordinates of a random direction in n dimensions are nearly N(0, 1 / n).
            coordinates = layer["kernel"].ravel() * len(layer["kernel"]) ** 0.5
            assert scipy.stats.kstest(coordinates, "norm").pvalue > 1e-4
            np.testing.assert_array_equal(layer["bias"], 0)


def test_convolutions_begin_as_pytorch_draws_them():
    """U(-b, b) with b = 1 / sqrt(fan_in), for kernels and biases alike."""
    params = jax.jit(make_a2c(A2CConfig(), VIEWS).init)(jax.random.key(0)).params["params"]
    for number in range(3):
        kernel, bias = (params["trunk"][f"{name}_{number}"] for name in ("kernel", "bias"))
        bound = np.prod(kernel.shape[:-1]) ** -0.5
        assert abs(kernel).max() <= bound
        np.testing.assert_allclose(kernel.std(), bound / 3**0.5, rtol=0.15)
        assert 0 < abs(bias).max() <= bound
