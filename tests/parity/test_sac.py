"""SAC's networks, losses, gradients and whole updates against PyTorch, from the same weights.

The oracle is the algorithm of the released code (denisyarats/drq with tied convolutions and the
bonus in the target), written with `torch.nn`, `torch.distributions` and `torch.optim`.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from re3_jax import distributions
from re3_jax.agents.sac import losses, networks
from re3_jax.agents.sac.agent import draw, make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.agents.sac.networks import Actor, Critic, Head
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.initializers import Layer
from re3_jax.networks.conv_stack import ConvStack
from re3_jax.replay.transitions import Transitions

ACTIONS, BATCH = 3, 8
IMAGES = EnvSpec("probe:images", (27, 27, 9), np.dtype(np.uint8), Box((ACTIONS,), -1, 1), 100)
VECTORS = EnvSpec("probe:vectors", (5,), np.dtype(np.float32), Box((ACTIONS,), -1, 1), 100)
SIZES = {"num_filters": 4, "latent_dim": 10, "hidden_dim": 32, "crop_size": 21}
RAD = SACConfig(**SIZES)
DRQ = SACConfig(**SIZES, augmentation="shift", num_augmentations=2, encoder_tau=0.01)
DRAW = jax.jit(draw, static_argnums=2)
CASES = {"rad": (RAD, IMAGES), "drq": (DRQ, IMAGES), "states": (RAD, VECTORS)}


class TorchEncoder(nn.Module):
    """Images to an encoding; flat observations to themselves."""

    def __init__(self, shape, config):
        super().__init__()
        self.is_image = len(shape) == 3
        if not self.is_image:
            return
        filters = config.num_filters
        strides = [2, 1, 1, 1]
        inputs = [shape[2], filters, filters, filters]
        self.convs = nn.ModuleList(
            [nn.Conv2d(i, filters, 3, s) for i, s in zip(inputs, strides, strict=True)]
        )
        self.side = ((shape[0] - 3) // 2 + 1) - 6
        self.fc = nn.Linear(filters * self.side**2, config.latent_dim)
        self.norm = nn.LayerNorm(config.latent_dim)

    def forward(self, x, detach=False):
        if not self.is_image:
            return x
        x = x.permute(0, 3, 1, 2) / 255
        for conv in self.convs:
            x = torch.relu(conv(x))
        x = x.flatten(1)
        return torch.tanh(self.norm(self.fc(x.detach() if detach else x)))


def torch_mlp(inputs, hidden, outputs):
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, outputs),
    )  # fmt: skip


class TorchActor(nn.Module):
    def __init__(self, shape, config):
        super().__init__()
        self.encoder = TorchEncoder(shape, config)
        size = config.latent_dim if len(shape) == 3 else shape[0]
        self.trunk = torch_mlp(size, config.hidden_dim, 2 * ACTIONS)

    def forward(self, x, noise, detach=False):
        mean, log_std = self.trunk(self.encoder(x, detach)).chunk(2, dim=-1)
        std = (-10 + 0.5 * (2 + 10) * (torch.tanh(log_std) + 1)).exp()
        normal, squash = torch.distributions.Normal(mean, std), torch.distributions.TanhTransform()
        u = mean + std * noise
        action = squash(u)
        log_det = squash.log_abs_det_jacobian(u, action)
        return action, (normal.log_prob(u) - log_det).sum(-1, keepdim=True)


class TorchCritic(nn.Module):
    def __init__(self, shape, config):
        super().__init__()
        self.encoder = TorchEncoder(shape, config)
        size = (config.latent_dim if len(shape) == 3 else shape[0]) + ACTIONS
        self.q1 = torch_mlp(size, config.hidden_dim, 1)
        self.q2 = torch_mlp(size, config.hidden_dim, 1)

    def forward(self, x, action, detach=False):
        x = torch.cat([self.encoder(x, detach), action], dim=1)
        return self.q1(x), self.q2(x)


class TorchSAC:
    """The released code's agent."""

    def __init__(self, shape, config):
        torch.manual_seed(0)
        self.config = config
        self.actor, self.critic = TorchActor(shape, config), TorchCritic(shape, config)
        self.target = TorchCritic(shape, config)
        if len(shape) == 3:
            self.actor.encoder.convs = self.critic.encoder.convs
        self.log_alpha = torch.tensor(np.log(config.init_temperature), dtype=torch.float32)
        self.log_alpha.requires_grad = True
        make = torch.optim.Adam
        self.actor_optimizer = make(self.actor.parameters(), config.actor_learning_rate)
        self.critic_optimizer = make(self.critic.parameters(), config.critic_learning_rate)
        self.alpha_optimizer = make([self.log_alpha], config.temperature_learning_rate)

    def target_values(self, batch, draws):
        values = []
        with torch.no_grad():
            for next_observation, noise in zip(
                draws.next_observation.split(BATCH), draws.next_noise.split(BATCH), strict=True
            ):
                action, log_prob = self.actor(next_observation, noise)
                q = torch.min(*self.target(next_observation, action))
                value = q - self.log_alpha.exp() * log_prob
                reward = (batch.reward + batch.bonus)[:, None]
                values.append(reward + batch.discount[:, None] * self.config.discount * value)
        return sum(values) / len(values)

    def critic_loss(self, batch, draws):
        target = self.target_values(batch, draws)
        loss = 0
        for observation in draws.observation.split(BATCH):
            q1, q2 = self.critic(observation, batch.action)
            loss = loss + F.mse_loss(q1, target) + F.mse_loss(q2, target)
        return loss

    def actor_loss(self, draws):
        observation = draws.observation[:BATCH]
        action, log_prob = self.actor(observation, draws.noise, detach=True)
        q = torch.min(*self.critic(observation, action, detach=True))
        return (self.log_alpha.exp().detach() * log_prob - q).mean(), log_prob

    def alpha_loss(self, log_prob):
        return (self.log_alpha.exp() * (-log_prob - -ACTIONS).detach()).mean()

    def update(self, batch, draws, full):
        critic_loss = self.critic_loss(batch, draws)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()
        info = {"critic_loss": critic_loss.item()}
        if full:
            actor_loss, log_prob = self.actor_loss(draws)
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
            self.alpha_optimizer.zero_grad()
            self.alpha_loss(log_prob).backward()
            self.alpha_optimizer.step()
            info |= {"actor_loss": actor_loss.item(), "entropy": -log_prob.mean().item()}
            for part, tau in (("q1", 0.01), ("q2", 0.01), ("encoder", self.config.encoder_tau)):
                new, old = getattr(self.critic, part), getattr(self.target, part)
                for p, t in zip(new.parameters(), old.parameters(), strict=True):
                    t.data.copy_(tau * p.data + (1 - tau) * t.data)
        return info


def weight(parameter):
    return parameter.detach().numpy().copy()


def gradient(parameter):
    return np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy().copy()


def layer_of(linear, get):
    return Layer(get(linear.weight).T, get(linear.bias))


def mlp_of(sequential, get):
    return tuple(layer_of(sequential[i], get) for i in (0, 2, 4))


def head_of(encoder, get):
    if not encoder.is_image:
        return None
    kernel = get(encoder.fc.weight)
    latent, side = kernel.shape[0], encoder.side
    kernel = kernel.reshape(latent, -1, side, side).transpose(2, 3, 1, 0).reshape(-1, latent)
    return Head(
        Layer(kernel, get(encoder.fc.bias)), get(encoder.norm.weight), get(encoder.norm.bias)
    )


def critic_of(critic, get=weight):
    convs = None
    if critic.encoder.is_image:
        layers = (
            Layer(get(conv.weight).transpose(2, 3, 1, 0), get(conv.bias))
            for conv in critic.encoder.convs
        )
        convs = ConvStack(tuple(layers), (2, 1, 1, 1))
    return Critic(
        convs, head_of(critic.encoder, get), (mlp_of(critic.q1, get), mlp_of(critic.q2, get))
    )


def actor_of(actor, get=weight):
    return Actor(head_of(actor.encoder, get), mlp_of(actor.trunk, get))


def make_batch(spec, seed):
    rng = np.random.default_rng(seed)

    def observations():
        shape = (BATCH, *spec.observation_shape)
        if spec.observation_dtype == np.uint8:
            return rng.integers(0, 256, shape, dtype=np.uint8)
        return rng.normal(size=shape).astype(np.float32)

    return Transitions(
        observation=observations(),
        action=rng.uniform(-1, 1, (BATCH, ACTIONS)).astype(np.float32),
        reward=rng.uniform(0, 2, BATCH).astype(np.float32),
        bonus=rng.uniform(0, 0.5, BATCH).astype(np.float32),
        discount=(rng.random(BATCH) > 0.2).astype(np.float32),
        next_observation=observations(),
    )


def to_torch(tree):
    return jax.tree.map(lambda x: torch.tensor(np.array(x, np.float32)), tree)


def seen_shape(config, spec):
    if len(spec.observation_shape) == 1 or config.augmentation != "crop":
        return spec.observation_shape
    return (config.crop_size, config.crop_size, spec.observation_shape[2])


def setting(name):
    """Oracle, our weights as the oracle has them, a batch and its draws."""
    config, spec = CASES[name]
    oracle = TorchSAC(seen_shape(config, spec), config)
    batch = make_batch(spec, seed=1)
    return config, oracle, our_weights(oracle), batch, DRAW(jax.random.key(2), batch, config)


def our_weights(oracle):
    trees = actor_of(oracle.actor), critic_of(oracle.critic), critic_of(oracle.target)
    actor, critic, target = (jax.tree.map(jnp.asarray, tree) for tree in trees)
    return {"actor": actor, "critic": critic, "target": target}


def assert_close(ours, theirs, rtol=1e-4, atol=1e-6):
    jax.tree.map(partial(np.testing.assert_allclose, rtol=rtol, atol=atol), ours, theirs)


@pytest.mark.parametrize("name", ["rad", "states"])
def test_networks_equal_pytorch(name):
    config, oracle, weights, batch, draws = setting(name)
    observation, tensors = draws.observation[:BATCH], to_torch(draws)
    with torch.no_grad():
        encoding = oracle.critic.encoder(tensors.observation[:BATCH])
        action, log_prob = oracle.actor(tensors.observation[:BATCH], tensors.noise)
        q = oracle.critic(tensors.observation[:BATCH], torch.tensor(batch.action))

    @jax.jit
    def ours(actor, critic):
        flat = networks.features(critic.convs, observation)
        gaussian = networks.policy(actor, flat, config)
        return (
            networks.encode(critic.head, flat),
            distributions.tanh_gaussian(*gaussian, draws.noise),
            networks.q_values(critic, flat, batch.action),
        )

    expected = (encoding, (action, log_prob[:, 0]), tuple(x[:, 0] for x in q))
    expected = jax.tree.map(lambda x: x.numpy(), expected)
    assert_close(ours(weights["actor"], weights["critic"]), expected, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_equal_pytorch(name):
    config, oracle, weights, batch, draws = setting(name)
    tensors, log_alpha = to_torch(draws), jnp.float32(oracle.log_alpha.item())
    target = oracle.target_values(to_torch(batch), tensors)
    critic_loss = oracle.critic_loss(to_torch(batch), tensors)
    critic_loss.backward()
    critic_gradient = critic_of(oracle.critic, gradient)
    oracle.critic.zero_grad()
    actor_loss, log_prob = oracle.actor_loss(tensors)
    actor_loss.backward()
    if oracle.critic.encoder.is_image:
        # The oracle's actor leaves the tied convolutions alone; ours does not own them.
        assert all(np.all(gradient(p) == 0) for p in oracle.critic.encoder.convs.parameters())
    alpha_loss = oracle.alpha_loss(log_prob)
    alpha_loss.backward()

    @jax.jit
    def ours(actor, critic, target):
        alpha = jnp.exp(log_alpha)
        y = losses.td_target(
            actor,
            critic,
            target,
            alpha,
            draws.next_observation,
            draws.next_noise,
            batch.reward + batch.bonus,
            batch.discount,
            config,
        )
        (critic_loss, _), critic_gradient = jax.value_and_grad(losses.critic_loss, has_aux=True)(
            critic, draws.observation, batch.action, y
        )
        flat = networks.features(critic.convs, draws.observation[:BATCH])
        (actor_loss, log_prob), actor_gradient = jax.value_and_grad(
            losses.actor_loss, has_aux=True
        )(actor, critic, alpha, flat, draws.noise, config)
        temperature = jax.value_and_grad(losses.temperature_loss)(log_alpha, log_prob, ACTIONS)
        return (
            (y, critic_loss, actor_loss, *temperature),
            (critic_gradient, actor_gradient),
        )

    values, gradients = ours(**weights)
    expected = target[:, 0], critic_loss, actor_loss, alpha_loss, oracle.log_alpha.grad
    assert_close(values, tuple(x.detach().numpy() for x in expected), atol=1e-5)
    expected = critic_gradient, actor_of(oracle.actor, gradient)
    assert_close(gradients, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "places"), [("rad", (0, 1, 0, 1)), ("drq", (0, 0)), ("states", (0, 0))]
)
def test_updates_equal_pytorch(name, places):
    config, spec = CASES[name]
    oracle, agent = TorchSAC(seen_shape(config, spec), config), make_sac(config, spec)
    shapes, weights = jax.eval_shape(agent.init, jax.random.key(0)), our_weights(oracle)
    for part, tree in weights.items():
        assert jax.tree.map(jnp.shape, tree) == jax.tree.map(jnp.shape, getattr(shapes, part))
    # Adam starts from zeros.
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    state = zeros._replace(**weights, log_alpha=jnp.log(jnp.float32(config.init_temperature)))
    phases = [jax.jit(phase) for phase in agent.phases]
    for number, place in enumerate(places):
        batch, key = make_batch(spec, 10 + number), jax.random.key(number)
        draws = to_torch(DRAW(key, batch, config))
        expected = oracle.update(to_torch(batch), draws, full=place == 0)
        state, info = phases[place](state, batch, key)
        assert_close({name: info[name] for name in expected}, expected, atol=1e-5)
        # Adam divides by the root of the squared gradient, so where that is lost in rounding so
        # is the direction of a step: 1e-5 is a twentieth of one step.
        assert_close(state.actor, actor_of(oracle.actor), atol=1e-5)
        assert_close(state.critic, critic_of(oracle.critic), atol=1e-5)
        assert_close(state.target, critic_of(oracle.target), atol=1e-6)
        assert_close(state.log_alpha, oracle.log_alpha.item())
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), weights["target"], state.target)
    assert min(jax.tree.leaves(moved)) > 0
