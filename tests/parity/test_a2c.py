"""One A2C update against PyTorch: loss, gradients and RMSprop step, from one rollout.

The oracle is torch-ac's algorithm written with `torch.nn` and `torch.optim`, loops and all.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax.agents.a2c.agent import make_a2c, make_network
from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.a2c.losses import a2c_loss
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import Discrete, EnvSpec

SPEC = EnvSpec("probe:views", (7, 7, 3), np.dtype(np.uint8), Discrete(7), 100)
STEPS, LANES = 8, 16


class TorchActorCritic(torch.nn.Module):
    """rl-starter-files' network without text and memory."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 16, 2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 2), nn.ReLU(),
            nn.Conv2d(32, 64, 2), nn.ReLU(),
        )  # fmt: skip
        self.actor = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 7))
        self.critic = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, view):
        x = self.trunk(view.permute(0, 3, 1, 2)).flatten(1)
        return self.actor(x), self.critic(x)[:, 0]


def torch_leaves(model):
    """Maps a getter to the oracle's parameters by the names and layouts of ours."""

    def linear(layer, get):
        return {"kernel": get(layer.weight).T, "bias": get(layer.bias)}

    def tree(get):
        convs = [model.trunk[i] for i in (0, 3, 5)]
        trunk = {f"kernel_{i}": get(c.weight).transpose(2, 3, 1, 0) for i, c in enumerate(convs)}
        trunk |= {f"bias_{i}": get(c.bias) for i, c in enumerate(convs)}
        heads = {
            name: {f"Dense_{i}": linear(head[2 * i], get) for i in range(2)}
            for name, head in (("actor", model.actor), ("critic", model.critic))
        }
        return {"params": {"trunk": trunk, **heads}}

    return tree


def make_rollout(seed):
    rng = np.random.default_rng(seed)
    shape = (STEPS, LANES)
    terminated = rng.random(shape) < 0.1
    return Rollout(
        observation=rng.integers(0, 11, (*shape, 7, 7, 3), dtype=np.uint8),
        action=rng.integers(0, 7, shape).astype(np.int32),
        reward=(rng.random(shape) * terminated).astype(np.float32),
        bonus=(0.1 * rng.random(shape)).astype(np.float32),
        terminated=terminated,
        truncated=rng.random(shape) < 0.1,
        next_observation=rng.integers(0, 11, (*shape, 7, 7, 3), dtype=np.uint8),
        last_observation=rng.integers(0, 11, (LANES, 7, 7, 3), dtype=np.uint8),
    )


def torch_loss(model, rollout, config):
    """torch-ac 1.1's `collect_experiences` and `update_parameters`, step by step."""

    def tensor(x):
        return torch.tensor(np.asarray(x, np.float32))

    reward, bonus = tensor(rollout.reward), tensor(rollout.bonus)
    if config.bonus_target == "reward":
        reward = reward + bonus
    with torch.no_grad():
        values = torch.stack([model(tensor(view))[1] for view in rollout.observation])
        next_value = model(tensor(rollout.last_observation))[1]
        final_values = torch.stack([model(tensor(v))[1] for v in rollout.next_observation])
    advantages = torch.zeros(STEPS, LANES)
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

    views = tensor(rollout.observation).reshape(-1, 7, 7, 3)
    logits, value = model(views)
    policy = torch.distributions.Categorical(logits=logits)
    action = torch.tensor(rollout.action.reshape(-1))
    policy_loss = -(policy.log_prob(action) * advantages.reshape(-1)).mean()
    value_loss = (value - returns.reshape(-1)).pow(2).mean()
    return (
        policy_loss - config.entropy_coef * policy.entropy().mean() + config.value_coef * value_loss
    )


@pytest.mark.parametrize(
    ("bonus_target", "rmsprop_eps", "bootstrap_truncation"),
    [("reward", 1e-2, False), ("advantage", 1e-8, False), ("reward", 1e-2, True)],
    ids=["paper", "released", "bootstrapped"],
)
def test_two_updates_equal_pytorch(bonus_target, rmsprop_eps, bootstrap_truncation):
    config = dataclasses.replace(
        A2CConfig(),
        bonus_target=bonus_target,
        bootstrap_truncation=bootstrap_truncation,
        rmsprop_eps=rmsprop_eps,
    )
    torch.manual_seed(0)
    model = TorchActorCritic()
    optimizer = torch.optim.RMSprop(
        model.parameters(), config.learning_rate, alpha=config.rmsprop_decay, eps=rmsprop_eps
    )
    tree = torch_leaves(model)
    agent = make_a2c(config, SPEC)
    state = agent.init(jax.random.key(0))
    params = jax.tree.map(jnp.asarray, tree(lambda p: p.detach().numpy().copy()))
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, state.params)
    state = state._replace(params=params)
    network = make_network(config, SPEC)
    differentiate = jax.jit(
        lambda params, rollout: jax.grad(a2c_loss, has_aux=True)(params, network, rollout, config)
    )
    update = jax.jit(agent.update)

    for number in range(2):
        rollout = make_rollout(number)
        optimizer.zero_grad()
        loss = torch_loss(model, rollout, config)
        loss.backward()
        gradient, info = differentiate(state.params, rollout)
        np.testing.assert_allclose(info["loss"], loss.item(), rtol=2e-5)
        expected_gradient = tree(lambda p: p.grad.numpy().copy())
        jax.tree.map(
            lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5),
            gradient,
            expected_gradient,
        )
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        optimizer.step()
        state, info = update(state, rollout)
        np.testing.assert_allclose(info["gradient_norm"], norm.item(), rtol=1e-4)

    # With eps 1e-8 an early RMSprop step is nearly sign(g): where g is rounding noise, so is
    # the step. Such entries are those whose accumulated square is at noise level.
    square = state.opt_state[1][0].nu
    expected = tree(lambda p: p.detach().numpy().copy())

    def compare(ours, theirs, nu):
        certain = np.sqrt(nu) > 1e-5
        assert certain.mean() > 0.5
        np.testing.assert_allclose(np.asarray(ours)[certain], theirs[certain], rtol=1e-4, atol=2e-5)

    jax.tree.map(compare, state.params, expected, square)
