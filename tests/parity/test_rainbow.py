"""Rainbow's layers, distributions and whole update against PyTorch."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax.agents.rainbow import losses, networks
from re3_jax.agents.rainbow.agent import RainbowBatch, make_rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.rainbow.learner import make_learner
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.intrinsic.base import none
from re3_jax.networks import minigrid, noisy
from tests.equal import equal_arrays
from tests.torch_oracle.rainbow import TorchRainbow
from tests.torch_oracle.weights import assert_close, data, random_state, random_weights, values

BATCH, ACTIONS = 6, 4
CONFIG = RainbowConfig(
    torso="data_efficient",
    hidden_dim=16,
    num_atoms=11,
    batch_size=BATCH,
    learning_rate=1e-3,
    target_every=3,
)
SPEC = EnvSpec("atari:Pong", (84, 84, 4), np.dtype(np.uint8), Discrete(ACTIONS), 1000)


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


@cache
def start(config, spec=SPEC):
    """The agent, its compiled update, and a state whose networks differ."""
    agent = make_rainbow(config, spec)
    online, target = (random_weights(agent.init, seed) for seed in range(2))
    state = random_state(agent.init, online=online.online, target=target.target)
    return agent, jax.jit(agent.update), state


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
"""Options of torsos that are not for Atari's images."""


# The parts left out one by one take a minute.
FAST = ("all of Rainbow", "none of it", "mlp")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=name, marks=() if name in FAST else pytest.mark.slow)
        for name, change in CHANGES.items()
    ],
)
def test_two_updates(change):
    """Two, because the first says nothing of what Adam remembers."""
    config = dataclasses.replace(CONFIG, **change)
    spec = SPECS.get(config.torso, SPEC)
    _, update, state = start(config, spec)
    oracle = TorchRainbow(config, state.online, state.target)
    # In these batches no ReLU is so near 0 that rounding decides whether it passes on a gradient.
    for seed in (0, 4):
        batch, key, before = make_batch(seed, spec), jax.random.key(3 + seed), state
        state, priority, info = update(before, batch, key)
        noises = tuple(
            networks.draw_noise(k, net)
            for k, net in zip(jax.random.split(key), (before.online, before.target), strict=True)
        )
        loss, expected, norm = oracle.update(data(batch), data(noises))
        np.testing.assert_allclose(info["loss"], loss, rtol=1e-4)
        np.testing.assert_allclose(info["gradient_norm"], norm, rtol=1e-3)
        np.testing.assert_allclose(priority, expected, rtol=1e-4)
        assert_close(state.online, values(oracle.online), atol=2e-5)
        jax.tree.map(equal_arrays, state.target, before.target)
        moved = jax.tree.map(
            lambda new, old: float(jnp.abs(new - old).max()), state.online, before.online
        )
        assert max(jax.tree.leaves(moved)) > 1e-4


def test_projection_keeps_mass_and_mean():
    """Within the support the mean is kept too; beyond it all mass moves to the ends."""
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
    (_, update, state), batch = start(CONFIG), make_batch()
    first, *_ = update(state, batch, jax.random.key(1))
    second, *_ = update(first, batch, jax.random.key(2))
    jax.tree.map(equal_arrays, second.target, state.target)
    third, *_ = update(second, batch, jax.random.key(3))
    jax.tree.map(equal_arrays, third.target, third.online)
    fourth, *_ = update(third, batch, jax.random.key(4))
    jax.tree.map(equal_arrays, fourth.target, third.online)


def test_agent_steps_of_the_first_copies():
    """Kaixhin's defaults: its code copies when T % 8,000 == 0 and T >= 20,000, so at 24,000."""
    spec = EnvSpec("probe:flat", (3,), np.dtype(np.float32), Discrete(2), 1_000)
    learner = make_learner(RainbowConfig(torso="mlp"), spec, none())
    steps = np.arange(1, 50_001)
    updates = np.cumsum(learner.updates_due(steps - 1, steps))
    every = RainbowConfig.target_every
    assert [int(np.argmax(updates == i * every)) + 1 for i in (1, 2, 3)] == [27_996, 35_996, 43_996]


@pytest.mark.parametrize("is_noisy", [True, False])
def test_acting(is_noisy):
    """Evaluation takes the mean weights' best action; training explores."""
    config = dataclasses.replace(CONFIG, noisy=is_noisy, epsilon=0.5)
    agent, _, state = start(config)
    observation = jnp.repeat(make_batch().observation[:1], 400, axis=0)
    act = jax.jit(agent.act, static_argnums=3)
    greedy = np.asarray(act(state, observation, jax.random.key(1), False))
    with torch.no_grad():
        oracle = TorchRainbow(config, state.online, state.target)
        outputs = oracle.outputs(oracle.online, data(observation[:1]), None)
        best = int(oracle.mean(outputs).argmax())
    assert (greedy == best).all()
    keys = jax.random.split(jax.random.key(2), 9)
    explored = [np.asarray(act(state, observation, key, True)) for key in keys]
    if is_noisy:
        # One draw of noise serves the whole batch, and every call has its own.
        assert all((actions == actions[0]).all() for actions in explored)
        assert len({int(actions[0]) for actions in explored}) > 1
    else:
        share = np.mean(np.concatenate(explored) != best)
        np.testing.assert_allclose(share, 0.5 * (1 - 1 / ACTIONS), atol=0.03)


def test_unsuitable_tasks_are_refused():
    box = dataclasses.replace(SPEC, action_space=Box((2,), -1, 1))
    with pytest.raises(ValueError, match="discrete actions"):
        make_rainbow(CONFIG, box)
    flat = dataclasses.replace(SPEC, observation_shape=(7,))
    with pytest.raises(ValueError, match='torso "mlp"'):
        make_rainbow(CONFIG, flat).init(jax.random.key(0))
    small = dataclasses.replace(SPEC, observation_shape=(10, 10, 4))
    with pytest.raises(ValueError, match="too small"):
        make_rainbow(CONFIG, small).init(jax.random.key(0))
    for support in ((1.0, 0.0), (-10.0, np.inf), (-np.inf, 10.0), (-3e38, 3e38), (np.nan, 1.0)):
        with pytest.raises(
            ValueError, match="v_min .* must be below v_max .*, and float32 must hold"
        ):
            RainbowConfig(v_min=support[0], v_max=support[1])


def test_noise_is_factorised_and_scaled_as_kaixhins():
    layer = noisy.init(jax.random.key(0), 400, 100, 0.1)
    np.testing.assert_allclose(layer.kernel_sigma, 0.1 / 20, rtol=1e-6)
    np.testing.assert_allclose(layer.bias_sigma, 0.1 / 10, rtol=1e-6)
    assert float(jnp.abs(layer.kernel).max()) <= 1 / 20
    np.testing.assert_allclose(jnp.std(layer.kernel), 1 / 20 / 3**0.5, rtol=0.02)
    noise = noisy.draw(jax.random.key(1), layer)
    drawn = np.sign(noise.inputs) * np.asarray(noise.inputs) ** 2
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [0, 1], atol=0.15)


@pytest.mark.parametrize("shape", [minigrid.OBSERVATION_SHAPE, (7, 7, 4)])
def test_bytes_are_scaled(shape):
    config = dataclasses.replace(CONFIG, torso="minatar")
    key, number = jax.random.split(jax.random.key(0))
    network = networks.init(key, config, shape, ACTIONS)
    codes = jax.random.randint(number, (5, *shape), 0, 11).astype(jnp.uint8)
    outputs = [
        networks.outputs(network, observation, None, config)
        for observation in (codes, codes.astype(jnp.float32) / 255)
    ]
    np.testing.assert_array_equal(*outputs)


def test_every_layer_has_noise_of_its_own():
    """And its outputs other than its inputs."""
    agent = make_rainbow(dataclasses.replace(CONFIG, torso="mlp"), SPECS["mlp"])
    noise = networks.draw_noise(jax.random.key(1), agent.init(jax.random.key(0)).online)
    drawn = np.concatenate(jax.tree.leaves(noise))
    assert len(np.unique(drawn)) > 0.99 * drawn.size


def test_what_is_predicted_exactly_keeps_a_priority():
    config = dataclasses.replace(CONFIG, torso="mlp", distributional=False, noisy=False)
    agent = make_rainbow(config, SPECS["mlp"])
    state = agent.init(jax.random.key(0))
    silent = jax.tree.map(jnp.zeros_like, state.online)
    state = state._replace(online=silent, target=jax.tree.map(jnp.copy, silent))
    zeros, seen = jnp.zeros(3), jnp.ones((3, 7))
    batch = RainbowBatch(seen, jnp.arange(3), zeros, zeros, zeros + 0.9, seen, zeros + 1)
    _, priority, info = jax.jit(agent.update)(state, batch, jax.random.key(1))
    assert info["loss"] == 0 and (priority > 0).all()
