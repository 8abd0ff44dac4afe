"""Rainbow's layers, distributions and whole update against PyTorch."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from re3_jax.agents.rainbow import losses, networks
from re3_jax.agents.rainbow.agent import RainbowBatch, make_rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.networks import noisy

BATCH, ACTIONS = 6, 4
CONFIG = RainbowConfig(
    torso="data_efficient", hidden_dim=16, num_atoms=11, batch_size=BATCH, learning_rate=1e-3
)
SPEC = EnvSpec("atari:Pong", (84, 84, 4), np.dtype(np.uint8), Discrete(ACTIONS), 1000)


def tensor(x, grad=False):
    return torch.tensor(np.asarray(x), requires_grad=grad)


def make_batch(seed=0, spec=SPEC):
    rng = np.random.default_rng(seed)
    top = 2 if spec.observation_dtype == np.bool_ else 256
    images = rng.integers(0, top, (2, BATCH, *spec.observation_shape))
    images = images.astype(spec.observation_dtype)
    return RainbowBatch(
        observation=jnp.asarray(images[0]),
        action=jnp.asarray(rng.integers(0, ACTIONS, BATCH), jnp.int32),
        reward=jnp.asarray(rng.normal(size=BATCH) * 3, jnp.float32),
        bonus=jnp.asarray(rng.random(BATCH), jnp.float32),
        discount=jnp.asarray(0.97 * (rng.random(BATCH) < 0.7), jnp.float32),
        next_observation=jnp.asarray(images[1]),
        weight=jnp.asarray(rng.random(BATCH), jnp.float32),
    )


def torch_linear(layer, x, noise):
    """Kaixhin's NoisyLinear, or nn.Linear."""
    weight, bias = layer.kernel.T, layer.bias
    if isinstance(layer, noisy.NoisyLayer) and noise is not None:
        weight = weight + layer.kernel_sigma.T * torch.outer(noise.outputs, noise.inputs)
        bias = bias + layer.bias_sigma * noise.outputs
    return F.linear(x, weight, bias)


def torch_outputs(network, observation, noise, config):
    """The network, channels first inside and channels last where it is flattened."""
    x = observation.float() / (255 if observation.dtype == torch.uint8 else 1)
    if network.convs.layers:
        x = x.permute(0, 3, 1, 2)
        for layer, stride in zip(network.convs.layers, network.convs.strides, strict=True):
            x = F.relu(F.conv2d(x, layer.kernel.permute(3, 2, 0, 1), layer.bias, stride))
        x = x.permute(0, 2, 3, 1)
    x = x.flatten(1)
    for layer in network.linear:
        x = F.relu(F.linear(x, layer.kernel.T, layer.bias))
    atoms = config.num_atoms if config.distributional else 1
    noises = iter(noise) if noise is not None else itertools.repeat(None)

    def stream(layers):
        hidden = F.relu(torch_linear(layers.hidden, x, next(noises)))
        return torch_linear(layers.output, hidden, next(noises))

    value = None if network.value is None else stream(network.value)[:, None]
    advantage = stream(network.advantage).view(len(x), ACTIONS, atoms)
    if value is None:
        return advantage
    return value + advantage - advantage.mean(dim=1, keepdim=True)


def torch_projection(probability, reward, discount, config):
    """The loop over atoms of Algorithm 1 of the paper that introduced C51."""
    step = (config.v_max - config.v_min) / (config.num_atoms - 1)
    out = np.zeros(probability.shape)
    for i, j in itertools.product(*map(range, probability.shape)):
        place = reward[i] + discount[i] * (config.v_min + j * step)
        b = (min(max(place, config.v_min), config.v_max) - config.v_min) / step
        low, high = int(np.floor(b)), int(np.ceil(b))
        if low == high:
            out[i, low] += probability[i, j]
        else:
            out[i, low] += probability[i, j] * (high - b)
            out[i, high] += probability[i, j] * (b - low)
    return out


def torch_update(online, target, batch, noises, config):
    """One update by autograd and torch.optim.Adam; returns the new weights, loss and errors."""
    leaves, structure = jax.tree.flatten(online)
    leaves = [tensor(leaf, grad=True) for leaf in leaves]
    online = jax.tree.unflatten(structure, leaves)
    target, batch = jax.tree.map(tensor, target), jax.tree.map(tensor, batch)
    online_noise, target_noise = jax.tree.map(tensor, noises)
    support = torch.linspace(config.v_min, config.v_max, config.num_atoms)

    def mean(outputs):
        return outputs[..., 0] if not config.distributional else outputs.softmax(-1) @ support

    every, action = torch.arange(BATCH), batch.action.long()
    with torch.no_grad():
        following = torch_outputs(target, batch.next_observation, target_noise, config)
        choosing = following
        if config.double:
            choosing = torch_outputs(online, batch.next_observation, online_noise, config)
        chosen = following[every, mean(choosing).argmax(1)]
    reward = (batch.reward + batch.bonus).numpy()
    outputs = torch_outputs(online, batch.observation, online_noise, config)[every, action]
    if config.distributional:
        projected = torch_projection(
            chosen.softmax(1).numpy(), reward, batch.discount.numpy(), config
        )
        loss = error = -(torch.tensor(projected) * outputs.log_softmax(1)).sum(1)
    else:
        wanted = torch.tensor(reward) + batch.discount * chosen[:, 0]
        loss = F.smooth_l1_loss(outputs[:, 0], wanted, reduction="none")
        error = (outputs[:, 0] - wanted).abs()
    total = (batch.weight * loss).mean()
    total.backward()
    used = [leaf for leaf in leaves if leaf.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(used, config.max_grad_norm)
    torch.optim.Adam(used, config.learning_rate, eps=config.adam_eps).step()
    new = jax.tree.unflatten(structure, [leaf.detach().numpy() for leaf in leaves])
    return new, total.item(), error.detach().numpy(), norm.item()


CHANGES = {
    "all of Rainbow": {},
    "clipped": {"max_grad_norm": 0.01},
    "without double": {"double": False},
    "without dueling": {"dueling": False},
    "without noise": {"noisy": False},
    "without distributions": {"distributional": False},
    "none of it": {"double": False, "dueling": False, "noisy": False, "distributional": False},
    "canonical": {"torso": "canonical"},
    "minatar": {"torso": "minatar"},
    "mlp": {"torso": "mlp"},
}

SPECS = {
    "minatar": dataclasses.replace(
        SPEC, observation_shape=(10, 10, 4), observation_dtype=np.dtype(bool)
    ),
    "mlp": dataclasses.replace(SPEC, observation_shape=(7,), observation_dtype=np.dtype("f4")),
}
"""Of torsos that are not for Atari's images."""


# The parts left out one by one take a minute.
FAST = ("all of Rainbow", "none of it", "mlp")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=name, marks=() if name in FAST else pytest.mark.slow)
        for name, change in CHANGES.items()
    ],
)
def test_one_update(change):
    config = dataclasses.replace(CONFIG, **change)
    spec = SPECS.get(config.torso, SPEC)
    agent, batch, key = make_rainbow(config, spec), make_batch(spec=spec), jax.random.key(3)
    state = agent.init(jax.random.key(0))
    other = networks.init(jax.random.key(1), config, spec.observation_shape, ACTIONS)
    state = state._replace(target=other)
    after, priority, info = jax.jit(agent.update)(state, batch, key)
    noises = tuple(
        networks.draw_noise(k, net)
        for k, net in zip(jax.random.split(key), (state.online, other), strict=True)
    )
    online, loss, error, norm = torch_update(state.online, other, batch, noises, config)
    np.testing.assert_allclose(info["loss"], loss, rtol=1e-4)
    np.testing.assert_allclose(info["gradient_norm"], norm, rtol=1e-3)
    np.testing.assert_allclose(priority, error**config.priority_exponent, rtol=1e-4)
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5),
        after.online,
        online,
    )
    jax.tree.map(np.testing.assert_array_equal, after.target, other)
    moved = jax.tree.map(
        lambda new, old: float(jnp.abs(new - old).max()), after.online, state.online
    )
    assert max(jax.tree.leaves(moved)) > 1e-4


def test_projection_keeps_mass_and_mean():
    """Within the support the mean stays too; beyond it all mass is at the ends."""
    support = jnp.linspace(-10, 10, 51)
    rng = np.random.default_rng(0)
    probability = jax.nn.softmax(jnp.asarray(rng.normal(size=(20, 51)) * 3, jnp.float32))
    reward = jnp.asarray(rng.uniform(-1, 1, 20), jnp.float32)
    projected = losses.project(probability, reward[:, None] + 0.8 * support, support)
    np.testing.assert_allclose(projected.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(
        projected @ support, reward + 0.8 * probability @ support, rtol=1e-4, atol=1e-4
    )
    far = losses.project(probability, 100 + support * jnp.ones((20, 1)), support)
    np.testing.assert_allclose(far[:, -1], 1, rtol=1e-5)


def test_the_target_network_is_copied_every_so_many_updates():
    config = dataclasses.replace(CONFIG, target_every=2)
    agent, batch = make_rainbow(config, SPEC), make_batch()
    state, update = agent.init(jax.random.key(0)), jax.jit(agent.update)
    first, *_ = update(state, batch, jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, first.target, state.online)
    second, *_ = update(first, batch, jax.random.key(2))
    jax.tree.map(np.testing.assert_array_equal, second.target, second.online)
    third, *_ = update(second, batch, jax.random.key(3))
    jax.tree.map(np.testing.assert_array_equal, third.target, second.online)


@pytest.mark.parametrize("is_noisy", [True, False])
def test_acting(is_noisy):
    """Evaluation takes the mean weights' best action; training explores."""
    config = dataclasses.replace(CONFIG, noisy=is_noisy, noise=5.0, epsilon=0.5)
    agent = make_rainbow(config, SPEC)
    state = agent.init(jax.random.key(0))
    observation = jnp.repeat(make_batch().observation[:1], 400, axis=0)
    greedy = np.asarray(agent.act(state, observation, jax.random.key(1), False))
    with torch.no_grad():
        weights = jax.tree.map(tensor, state.online)
        logits = torch_outputs(weights, tensor(observation[:1]), None, config)
        support = torch.linspace(config.v_min, config.v_max, config.num_atoms)
        best = int((logits.softmax(-1) @ support).argmax())
    assert (greedy == best).all()
    keys = jax.random.split(jax.random.key(2), 9)
    explored = [np.asarray(agent.act(state, observation, key, True)) for key in keys]
    if is_noisy:
        # One draw of noise serves the whole batch, and every call has its own.
        assert all((actions == actions[0]).all() for actions in explored)
        assert len({int(actions[0]) for actions in explored}) > 1
    else:
        share = np.mean(np.concatenate(explored) != best)
        np.testing.assert_allclose(share, 0.5 * (1 - 1 / ACTIONS), atol=0.03)


def test_what_rainbow_cannot_do_is_refused():
    box = dataclasses.replace(SPEC, action_space=Box((2,), -1, 1))
    with pytest.raises(ValueError, match="discrete actions"):
        make_rainbow(CONFIG, box)
    flat = dataclasses.replace(SPEC, observation_shape=(7,))
    with pytest.raises(ValueError, match='torso "mlp"'):
        make_rainbow(CONFIG, flat).init(jax.random.key(0))
    small = dataclasses.replace(SPEC, observation_shape=(10, 10, 4))
    with pytest.raises(ValueError, match="too small"):
        make_rainbow(CONFIG, small).init(jax.random.key(0))
    with pytest.raises(ValueError, match="v_min"):
        RainbowConfig(v_min=1.0, v_max=0.0)


def test_noise_is_factorised_and_scaled_as_kaixhins():
    layer = noisy.init(jax.random.key(0), 400, 100, 0.1)
    np.testing.assert_allclose(layer.kernel_sigma, 0.1 / 20, rtol=1e-6)
    np.testing.assert_allclose(layer.bias_sigma, 0.1 / 10, rtol=1e-6)
    assert float(jnp.abs(layer.kernel).max()) <= 1 / 20
    np.testing.assert_allclose(jnp.std(layer.kernel), 1 / 20 / 3**0.5, rtol=0.02)
    noise = noisy.draw(jax.random.key(1), layer)
    drawn = np.sign(noise.inputs) * np.asarray(noise.inputs) ** 2
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [0, 1], atol=0.15)
