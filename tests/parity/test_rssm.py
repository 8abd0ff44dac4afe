"""Dreamer's recurrent state-space model against PyTorch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import torch

from re3_jax.networks import rssm
from re3_jax.networks.gru import gru_step
from tests.torch_oracle import dreamer
from tests.torch_oracle.weights import as_tensors, random_weights

DETER, STOCH, HIDDEN, ACTION, EMBEDDING = 20, 6, 16, 3, 12


def make(seed=0):
    """Parameters without zeros."""
    init = partial(
        rssm.init,
        action_dim=ACTION,
        embedding_dim=EMBEDDING,
        deter=DETER,
        stoch=STOCH,
        hidden=HIDDEN,
    )
    return random_weights(init, seed)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tensor(x):
    return torch.tensor(np.array(x, np.float64))


def test_fresh_parameters_can_be_donated():
    params = rssm.init(jax.random.key(0), action_dim=3, embedding_dim=4, deter=5, stoch=2, hidden=6)
    double = jax.jit(partial(jax.tree.map, lambda leaf: 2 * leaf), donate_argnums=0)
    assert double(params).gru.bias.shape == (15,)


def test_recurrence():
    """One step of the GRU; PyTorch resets after the product as well."""
    gru, x, h = make().gru, normal(5, HIDDEN), normal(5, DETER, seed=1)
    ours = jax.jit(gru_step)(gru, x, h)
    expected = dreamer.gru_cell(as_tensors(gru))(tensor(x), tensor(h))
    np.testing.assert_allclose(ours, expected.detach(), rtol=1e-5, atol=1e-6)


def test_states_priors_and_posteriors_along_sequences():
    params, time, batch = make(), 7, 4
    embedding, action = normal(time, batch, EMBEDDING), normal(time, batch, ACTION, seed=1)
    key = jax.random.key(5)
    noise = jax.random.normal(key, (time, batch, STOCH))
    states, priors, posteriors = jax.jit(rssm.observe)(params, embedding, action, key)
    with torch.no_grad():
        stoch, deter, prior, posterior = dreamer.observe(
            as_tensors(params), tensor(embedding), tensor(action), tensor(noise)
        )
    for ours, theirs in (
        (states.deter, deter),
        (states.stoch, stoch),
        (priors.mean, prior.mean),
        (priors.std, prior.stddev),
        (posteriors.mean, posterior.mean),
        (posteriors.std, posterior.stddev),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)
    expected = torch.distributions.kl_divergence(posterior, prior).sum(-1)
    ours = rssm.kl_divergence(posteriors, priors)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


def test_one_step_at_a_time_is_the_same():
    """Acting, one step at a time, equals training on whole sequences."""
    params = make()
    embedding, action = normal(3, 2, EMBEDDING), normal(3, 2, ACTION, seed=1)
    states, priors, posteriors = rssm.observe(params, embedding, action, jax.random.key(0))
    state = rssm.initial(params, (2,))
    for t in range(3):
        deter = rssm.advance(params, state, jnp.asarray(action[t]))
        for ours, theirs in (
            (rssm.prior(params, deter), priors),
            (rssm.posterior(params, deter, jnp.asarray(embedding[t])), posteriors),
        ):
            np.testing.assert_allclose(ours.mean, theirs.mean[t], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(ours.std, theirs.std[t], rtol=1e-5, atol=1e-6)
        state = jax.tree.map(lambda leaf, t=t: leaf[t], states)
    assert rssm.features(state).shape == (2, DETER + STOCH)
    np.testing.assert_array_equal(rssm.features(state)[:, :STOCH], state.stoch)


def test_initialisation_is_keras():
    init = partial(rssm.init, action_dim=6, embedding_dim=1024, deter=200, stoch=30, hidden=200)
    params = jax.jit(init)(jax.random.key(0))
    for layer in (params.into, *params.prior, *params.posterior):
        bound = (6 / sum(layer.kernel.shape)) ** 0.5
        assert 0.98 * bound < float(jnp.abs(layer.kernel).max()) <= bound
        np.testing.assert_array_equal(layer.bias, 0)
    np.testing.assert_allclose(
        params.gru.recurrent @ params.gru.recurrent.T, np.eye(200), atol=1e-4
    )
    np.testing.assert_array_equal(params.gru.bias, 0)
    np.testing.assert_array_equal(params.gru.recurrent_bias, 0)
