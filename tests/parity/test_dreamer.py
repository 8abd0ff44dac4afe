"""Dreamer's returns, policy, optimiser and whole update against independent references."""

import dataclasses
from functools import cache
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy import stats

from re3_jax.agents.dreamer import imagination, losses, networks, policy
from re3_jax.agents.dreamer.agent import Dreamer, SequenceBatch
from re3_jax.agents.dreamer.config import DreamerConfig, Precision
from re3_jax.agents.dreamer.optimizer import clipped_adam
from re3_jax.agents.dreamer.policy import TanhNormal
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.networks.rssm import State
from tests.parity.test_rssm import tensor
from tests.rlax_alone import rlax
from tests.torch_oracle import dreamer
from tests.torch_oracle.dreamer import TorchDreamer
from tests.torch_oracle.weights import random_state, random_weights

CONFIG = DreamerConfig(
    deter=20,
    stoch=6,
    hidden=16,
    conv_depth=2,
    head_units=24,
    batch_size=3,
    sequence_length=5,
    horizon=4,
)
SPEC = EnvSpec("dmc:any", (64, 64, 3), np.dtype(np.uint8), Box((2,), -1, 1), 500, 2)


def make_batch(seed=0):
    rng = np.random.default_rng(seed)
    shape = CONFIG.batch_size, CONFIG.sequence_length
    return SequenceBatch(
        frames=jnp.asarray(rng.integers(0, 256, (*shape, 64, 64, 3)), jnp.uint8),
        action=jnp.asarray(rng.uniform(-1, 1, (*shape, 2)), jnp.float32),
        reward=jnp.asarray(rng.normal(size=shape), jnp.float32),
        discount=jnp.asarray(rng.random(shape) < 0.8, jnp.float32),
    )


@cache
def start(config=CONFIG):
    """An agent, and a state with random weights."""
    agent = Dreamer(config, SPEC)
    weights = random_weights(agent.init)
    parts = {name: getattr(weights, name) for name in dreamer.PARTS}
    return agent, random_state(agent.init, **parts)


def noise_of(key, config):
    """The noise that an update draws with `key`."""
    model_key, imagine_key = jax.random.split(key)
    size, time = config.batch_size, config.sequence_length
    # Nothing is imagined from a last state in which the task may have ended.
    starts = size * (time - config.predict_discount)

    def of_step(key):
        action_key, state_key = jax.random.split(key)
        return (
            jax.random.normal(action_key, (starts, 2)),
            jax.random.normal(state_key, (starts, config.stoch)),
        )

    steps = map(of_step, jax.random.split(imagine_key, config.horizon))
    posterior = jax.random.normal(model_key, (time, size, config.stoch))
    return dreamer.Noise(posterior, *map(list, zip(*steps, strict=True)))


OTHER_NUMBERS = {
    # Fewer than the states have on average (1.6 and 1.8), and more than some of them.
    "free_nats": 1.4,
    "predict_discount": True,
    "kl_scale": 0.7,
    "discount_scale": 5.0,
    "model_learning_rate": 5e-4,
    "actor_learning_rate": 2e-4,
    "value_learning_rate": 1e-4,
    "init_std": 3.0,
    "mean_scale": 4.0,
    "min_std": 0.2,
    "discount": 0.97,
    "td_lambda": 0.9,
    "adam_eps": 1e-6,
    # Clips the model's gradients and the value's.
    "max_grad_norm": 0.5,
}
"""None is a default, so that an agent that does not read one differs from the oracle."""


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"discount": 0.9}, marks=pytest.mark.slow, id="few nats are free"),
        pytest.param(OTHER_NUMBERS, id="fewer are, and discounts are predicted"),
    ],
)
def test_two_updates(changes, monkeypatch):
    """Losses, gradients by their norms, and the parameters after Keras's Adam.

    Two, because the first says nothing of what Adam remembers.
    """
    # Fewer than the batch has, so that it is split into parts.
    monkeypatch.setattr("re3_jax.cpu.parts.AT_ONCE", 5)
    config = dataclasses.replace(CONFIG, **changes)
    agent, state = start(config)
    oracle, update = TorchDreamer(config, state, torch.float64), jax.jit(agent.update)
    clear = [np.ones(leaf.shape, bool) for leaf in jax.tree.leaves(oracle.parts)]
    for seed in range(2):
        batch, key = make_batch(seed), jax.random.key(7 + seed)
        state, info = update(state, batch, key)
        noise = jax.tree.map(tensor, noise_of(key, config))
        expected = oracle.update(jax.tree.map(tensor, batch), noise)
        for name, value in expected.items():
            is_norm = name.endswith("norm")
            np.testing.assert_allclose(
                info[name], value, rtol=2e-3 if is_norm else 1e-4, atol=0 if is_norm else 1e-5
            )
        gradients = [leaf.grad.numpy() for leaf in jax.tree.leaves(oracle.parts)]
        # Where it is rounding noise, so is the step.
        clear = [
            known & (np.abs(g) > 1e-5 * np.abs(g).max() + 1e-9)
            for known, g in zip(clear, gradients, strict=True)
        ]
    for name, part, rate in zip(
        dreamer.PARTS, oracle.parts, dreamer.learning_rates(config), strict=True
    ):
        for ours, theirs in zip(
            jax.tree.leaves(getattr(state, name)), jax.tree.leaves(part), strict=True
        ):
            known = clear.pop(0)
            np.testing.assert_allclose(
                np.asarray(ours)[known], theirs.detach().numpy()[known], rtol=0, atol=0.01 * rate
            )


@pytest.mark.slow
def test_a_gpu_imagines_from_all_starts_at_once_to_the_same_end(monkeypatch):
    """Other platforms' program, run here on the CPU, equals the CPU's, which runs in parts."""
    _, state = start()
    deter, stoch = (
        jax.random.normal(jax.random.key(1), (15, n)) for n in (CONFIG.deter, CONFIG.stoch)
    )
    noise = imagination.draw_noise(jax.random.key(2), CONFIG.horizon, 15, 2, CONFIG.stoch)
    words = CONFIG, state.actor, state.value, state.model, State(deter, stoch), noise
    monkeypatch.setattr("re3_jax.cpu.parts.AT_ONCE", 5)
    in_parts = imagination.learn(*words)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *x, cpu, default: default(*x))
    at_once = imagination.learn(*words)
    for ours, theirs in zip(jax.tree.leaves(in_parts), jax.tree.leaves(at_once), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_narrower_trunk_has_nearly_the_same_losses_and_gradients():
    """bfloat16 has 8 bits: only encoder, decoder and heads may use it."""
    batch, key, found = make_batch(), jax.random.key(1), []
    for precision in get_args(Precision):
        agent, state = start(dataclasses.replace(CONFIG, precision=precision))
        gradients, (_, info) = jax.jit(jax.grad(agent.model_loss, has_aux=True))(
            state.model, batch, key
        )
        found.append((gradients, info))
    (wide, wide_info), (narrow, narrow_info) = found
    after, _ = jax.eval_shape(agent.update, state, batch, key)
    for before, leaf in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert leaf.dtype == before.dtype
    for name, value in wide_info.items():
        assert narrow_info[name].dtype == jnp.float32
        np.testing.assert_allclose(narrow_info[name], value, rtol=0.05, err_msg=name)
    for ours, theirs in zip(jax.tree.leaves(narrow), jax.tree.leaves(wide), strict=True):
        assert ours.dtype == jnp.float32
        # One unit in a hundred is near 0 and changes sign, and its whole gradient with it.
        assert np.linalg.norm(ours - theirs) <= 0.2 * np.linalg.norm(theirs)
    bias, expected = (model.decoder.convs[-1].bias for model in (narrow, wide))
    assert 0 < np.linalg.norm(bias - expected) < 0.01 * np.linalg.norm(expected)


def test_the_decoder_returns_images_of_their_size():
    model = jax.eval_shape(
        lambda key: networks.init_model(key, DreamerConfig(), 2, 3), jax.random.key(0)
    )
    assert model.dynamics.posterior[0].kernel.shape == (200 + 1024, 200)
    image = jax.ShapeDtypeStruct((5, 64, 64, 3), jnp.float32)
    assert jax.eval_shape(networks.encode, model.encoder, image).shape == (5, 1024)
    features = jax.ShapeDtypeStruct((5, 230), jnp.float32)
    assert jax.eval_shape(networks.decode, model.decoder, features).shape == (5, 64, 64, 3)


def test_lambda_returns_equal_rlax():
    rng = np.random.default_rng(0)
    reward, value, discount = rng.normal(size=(3, 14, 6)).astype(np.float32)
    bootstrap = rng.normal(size=6).astype(np.float32)
    ours = losses.lambda_returns(reward, value, discount, bootstrap, 0.95)
    following = np.concatenate([value[1:], bootstrap[None]])
    expected = jax.vmap(rlax.lambda_returns, (1, 1, 1, None), 1)(reward, discount, following, 0.95)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.2), (2.0, 1.0), (-4.0, 5.0)])
def test_the_mode_is_the_most_probable_of_the_samples(mean, std):
    """By the density of tanh of a normal variable, in float64."""
    params = TanhNormal(jnp.full((1, 1), mean), jnp.full((1, 1), std))
    key = jax.random.key(1)
    chosen = float(policy.mode(key, params, 100)[0, 0])
    before = mean + std * np.asarray(jax.random.normal(key, (100, 1, 1)), np.float64)[:, 0, 0]
    # log(1 - tanh^2) in a form that does not cancel.
    density = stats.norm.logpdf(before, mean, std) + 2 * np.logaddexp(before, -before)
    density -= 2 * np.log(2)
    np.testing.assert_allclose(chosen, np.tanh(before[np.argmax(density)]), rtol=1e-5)


def test_the_defaults_are_those_of_danijars_code():
    """The oracle takes an agent's numbers from its configuration."""
    names = "model_learning_rate", "value_learning_rate", "actor_learning_rate", "max_grad_norm"
    names += "kl_scale", "discount_scale", "free_nats", "discount", "td_lambda", "horizon"
    names += "init_std", "exploration_noise", "mean_scale", "min_std", "adam_eps"
    config = DreamerConfig()
    # In the order of its `define_config`, then `ActionDecoder` and Keras.
    assert [getattr(config, name) for name in names] == [
        *(6e-4, 8e-5, 8e-5, 100.0),
        *(1.0, 10.0, 3.0, 0.99, 0.95, 15),
        *(5.0, 0.3, 5.0, 1e-4, 1e-7),
    ]


def test_an_untrained_actor_is_wide_and_bounded():
    actor = networks.init_head(jax.random.key(0), CONFIG, "actor", 4)
    features = 100 * jax.random.normal(jax.random.key(1), (50, 26))
    chosen = policy.distribution(actor, features, CONFIG)
    assert float(jnp.abs(chosen.mean).max()) <= 5
    zero = policy.distribution(actor, jnp.zeros((1, 26)), CONFIG)
    np.testing.assert_allclose(zero.std, 5 + 1e-4, rtol=1e-5)
    np.testing.assert_allclose(zero.mean, 0, atol=1e-6)


def test_epsilon_is_added_before_the_bias_is_corrected():
    """Differs from optax and PyTorch for gradients as small as epsilon."""
    optimizer = clipped_adam(0.1, 1e-3, 1e9)
    params, gradients = jnp.ones(3), [np.array([1e-3, 1e-1, 10.0]) * (t + 1) for t in range(4)]
    state, m, v, expected = optimizer.init(params), 0.0, 0.0, np.ones(3)
    for t, g in enumerate(gradients, 1):
        change, state = optimizer.update(jnp.asarray(g, jnp.float32), state)
        params = params + change
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        expected = expected - 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-3)
        np.testing.assert_allclose(params, expected, rtol=1e-5)


@pytest.mark.parametrize("init_std", [0.001, 5.0, 1000.0])
def test_a_policy_begins_with_its_standard_deviation(init_std):
    config = dataclasses.replace(CONFIG, init_std=init_std)
    _, state = start(config)
    silent = jax.tree.map(jnp.zeros_like, state.actor)
    found = policy.distribution(silent, jnp.zeros((1, config.stoch + config.deter)), config)
    np.testing.assert_allclose(found.std, init_std + config.min_std, rtol=1e-5)


def test_acting_follows_the_episode_and_adds_noise_only_to_explore():
    """A step with a sample and noise, and one with the mode, from PyTorch's states."""
    # The policy is narrow, or most actions would be at their bounds.
    config = dataclasses.replace(CONFIG, init_std=0.4, exploration_noise=0.9, mode_samples=9)
    (agent, state), keys = start(config), jax.random.split(jax.random.key(1))
    frames, act = make_batch().frames.swapaxes(0, 1)[:2], jax.jit(agent.act, static_argnums=4)
    first, explored = act(state, agent.begin(state, 3), frames[0], keys[0], True)
    second, chosen = act(state, first, frames[1], keys[1], False)

    split = [jax.random.split(key, 3) for key in keys]
    state_keys, action_keys, noise_keys = zip(*split, strict=True)

    def normal(key, *shape):
        return tensor(jax.random.normal(key, shape))

    oracle = TorchDreamer(config, state, torch.float64)
    noise = torch.stack([normal(key, 3, config.stoch) for key in state_keys])
    moved = torch.stack([torch.zeros(3, 2), tensor(explored)])
    with torch.no_grad():
        image = dreamer.preprocessed(tensor(frames).flatten(0, 1), torch.float64)
        embedding = dreamer.encode(oracle.model.encoder, image).reshape(2, 3, -1)
        stoch, deter, _, _ = dreamer.observe(oracle.model.dynamics, embedding, moved, noise)
        mean, std = dreamer.policy(oracle.actor, torch.cat([stoch, deter], -1), config)
    for time, belief in enumerate((first, second)):
        np.testing.assert_allclose(belief.state.stoch, stoch[time], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(belief.state.deter, deter[time], rtol=1e-4, atol=1e-5)

    sampled = torch.tanh(mean[0] + std[0] * normal(action_keys[0], 3, 2))
    expected = (sampled + 0.9 * normal(noise_keys[0], 3, 2)).clamp(-1, 1)
    assert 0 < (expected.abs() == 1).sum() < 4
    np.testing.assert_allclose(explored, expected, rtol=1e-4, atol=1e-5)
    drawn = mean[1] + std[1] * normal(action_keys[1], 9, 3, 2)
    density = torch.distributions.Normal(mean[1], std[1]).log_prob(drawn)
    density = (density - torch.log1p(-(torch.tanh(drawn) ** 2))).sum(-1)
    expected = torch.tanh(drawn[density.argmax(0), torch.arange(3)])
    np.testing.assert_allclose(chosen, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"action_space": Discrete(3)}, "dreamer needs actions that are a vector of real numbers"),
        ({"action_space": Box((2,), -2.0, 2.0)}, "dreamer acts from -1 to 1"),
        ({"observation_dtype": np.dtype(np.float32)}, "sees images of 64x64 bytes"),
        ({"observation_shape": (84, 84, 9)}, "set image_size to 64"),
    ],
)
def test_unsuitable_tasks_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Dreamer(CONFIG, dataclasses.replace(SPEC, **change))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"deter": 0}, "deter must be at least 1"),
        ({"horizon": 1}, "horizon must be at least 2"),
        ({"sequence_length": 1}, "sequence_length must be at least 2"),
        ({"init_std": 0.0}, "init_std must be a finite number above 0"),
        ({"td_lambda": 1.1}, "td_lambda must be from 0 to 1"),
        ({"free_nats": -1.0}, "free_nats must be a finite number of at least 0"),
        (
            {"head_order": "tanh"},
            "unknown head_order 'tanh': choose one of layer_norm_",
        ),
    ],
)
def test_impossible_settings_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        DreamerConfig(**change)
