"""SAC's networks, losses, gradients and whole updates against PyTorch, from the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from re3_jax import distributions
from re3_jax.agents.sac import losses, networks
from re3_jax.agents.sac.agent import draw, make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.replay.transitions import Transitions
from tests.torch_oracle.sac import TorchSAC, encode, q_values
from tests.torch_oracle.weights import assert_close, data, gradients, random_state, random_weights

ACTIONS, BATCH = 3, 8
IMAGES = EnvSpec("probe:images", (27, 27, 9), np.dtype(np.uint8), Box((ACTIONS,), -1, 1), 100)
VECTORS = EnvSpec("probe:vectors", (5,), np.dtype(np.float32), Box((ACTIONS,), -1, 1), 100)
SIZES = {"num_filters": 4, "latent_dim": 10, "hidden_dim": 32, "crop_size": 21}
RAD = SACConfig(**SIZES)
DRQ = SACConfig(**SIZES, augmentation="shift", num_augmentations=2, encoder_tau=0.01)
DRAW = jax.jit(draw, static_argnums=2)
CASES = {
    "rad": (RAD, IMAGES),
    "patches": (SACConfig(**SIZES, torso="patches"), IMAGES),
    "drq": (DRQ, IMAGES),
    "states": (RAD, VECTORS),
}


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


def setting(name, as_released=False):
    """The agent, a state with random weights, the oracle with the same weights, a batch, draws."""
    config, spec = CASES[name]
    agent = make_sac(config, spec)
    actor, critic, target = (random_weights(agent.init, seed) for seed in range(3))
    state = random_state(
        agent.init,
        actor=actor.actor,
        critic=critic.critic,
        target=target.target,
        log_alpha=jnp.log(jnp.float32(config.init_temperature)),
    )
    batch = make_batch(spec, seed=1)
    draws = DRAW(jax.random.key(2), batch, config)
    return agent, state, TorchSAC(config, state, as_released), batch, draws


@pytest.mark.parametrize("name", ["rad", "states"])
def test_networks_equal_pytorch(name):
    _, state, oracle, batch, draws = setting(name)
    config, tensors = oracle.config, oracle.prepared(data(draws))
    with torch.no_grad():
        flat = oracle.features(oracle.critic.convs, tensors.observation[:BATCH])
        expected = (
            encode(oracle.critic.head, flat),
            oracle.policy(oracle.actor, flat, tensors.noise),
            q_values(oracle.critic, flat, torch.tensor(batch.action)),
        )

    @jax.jit
    def ours(actor, critic):
        flat = networks.features(critic.convs, draws.observation[:BATCH])
        gaussian = networks.policy(actor, flat, config)
        return (
            networks.encode(critic.head, flat),
            distributions.tanh_gaussian(*gaussian, draws.noise),
            list(networks.q_values(critic, flat, batch.action)),
        )

    assert_close(
        ours(state.actor, state.critic), jax.tree.map(lambda x: x.numpy(), expected), atol=1e-5
    )


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_equal_pytorch(name):
    _, state, oracle, batch, draws = setting(name)
    config, tensors = oracle.config, oracle.prepared(data(draws))
    target = oracle.target_values(data(batch), tensors)
    critic_loss, q_mean = oracle.critic_loss(data(batch), tensors, target)
    critic_loss.backward()
    critic_gradient = oracle.ours(oracle.critic, gradients)
    actor_loss, log_prob = oracle.actor_loss(tensors)
    actor_loss.backward()
    alpha_loss = oracle.alpha_loss(log_prob)
    alpha_loss.backward()
    # The actor's loss changes neither the tied convolutions nor anything else of the critic.
    assert_close(oracle.ours(oracle.critic, gradients), critic_gradient, rtol=0, atol=0)

    @jax.jit
    def ours(state):
        actor, critic, log_alpha = state.actor, state.critic, state.log_alpha
        alpha = jnp.exp(log_alpha)
        y = losses.td_target(
            actor,
            critic,
            state.target,
            alpha,
            draws.next_observation,
            draws.next_noise,
            batch.reward + batch.bonus,
            batch.discount,
            config,
        )
        (critic_loss, q_mean), critic_gradient = jax.value_and_grad(
            losses.critic_loss, has_aux=True
        )(critic, draws.observation, batch.action, y)
        flat = networks.features(critic.convs, draws.observation[:BATCH])
        (actor_loss, log_prob), actor_gradient = jax.value_and_grad(
            losses.actor_loss, has_aux=True
        )(actor, critic, alpha, flat, draws.noise, config)
        temperature = jax.value_and_grad(losses.temperature_loss)(log_alpha, log_prob, ACTIONS)
        return (
            (y, critic_loss, q_mean, actor_loss, *temperature),
            (critic_gradient, actor_gradient),
        )

    found, found_gradients = ours(state)
    expected = target, critic_loss, q_mean, actor_loss, alpha_loss, oracle.log_alpha.grad
    assert_close(found, tuple(x.detach().numpy() for x in expected), atol=1e-5)
    expected = critic_gradient, oracle.ours(oracle.actor, gradients)
    assert_close(found_gradients, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "places"),
    [("rad", (0, 1, 0, 1)), ("patches", (0,)), ("drq", (0, 0)), ("states", (0, 0))],
)
def test_updates_equal_pytorch(name, places):
    """In both layouts of the oracle, which `benchmarks.sac_update` times."""
    agent, state, oracle, *_ = setting(name)
    before, config, spec = state, *CASES[name]
    oracles = oracle, TorchSAC(config, state, as_released=True)
    phases = [jax.jit(phase) for phase in agent.phases]
    for number, place in enumerate(places):
        batch, key = make_batch(spec, 10 + number), jax.random.key(number)
        draws = DRAW(key, batch, config)
        state, info = phases[place](state, batch, key)
        for oracle in oracles:
            expected = oracle.update(data(batch), data(draws), full=place == 0)
            assert_close({name: info[name] for name in expected}, expected, atol=1e-5)
            # Adam divides by the root of the squared gradient, so where rounding dominates it, the
            # direction of a step is arbitrary: 1e-5 is a twentieth of a step.
            assert_close(state.actor, oracle.ours(oracle.actor), atol=1e-5)
            assert_close(state.critic, oracle.ours(oracle.critic), atol=1e-5)
            assert_close(state.target, oracle.ours(oracle.target), atol=1e-6)
            assert_close(state.log_alpha, oracle.log_alpha.item())
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), before.target, state.target)
    assert min(jax.tree.leaves(moved)) > 0
