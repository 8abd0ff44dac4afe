"""Dreamer's recurrent state-space model against PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.nn import functional as F

from re3_jax.networks import rssm

DETER, STOCH, HIDDEN, ACTION, EMBEDDING = 20, 6, 16, 3, 12


def make(seed=0):
    """Parameters none of which is zero."""
    params = rssm.init(
        jax.random.key(seed),
        action_dim=ACTION,
        embedding_dim=EMBEDDING,
        deter=DETER,
        stoch=STOCH,
        hidden=HIDDEN,
    )
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
    noisy = [
        leaf + 0.1 * jax.random.normal(key, leaf.shape)
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, noisy)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tensor(x):
    return torch.tensor(np.array(x, np.float64))


def torch_gru(gru):
    """Of the same weights: its gates come as reset, update, candidate."""

    def gates(array):
        update, reset, candidate = np.split(np.array(array), 3, axis=-1)
        return torch.tensor(np.concatenate([reset, update, candidate], axis=-1).T)

    cell = torch.nn.GRUCell(gru.kernel.shape[0], DETER)
    cell.weight_ih.data, cell.weight_hh.data = gates(gru.kernel), gates(gru.recurrent)
    cell.bias_ih.data, cell.bias_hh.data = gates(gru.bias), gates(gru.recurrent_bias)
    return cell.double()


def torch_gru_function(gru, x, h):
    """The same of tensors, so that gradients reach the weights; `test_recurrence` has the cell."""
    update, reset, candidate = (x @ gru.kernel + gru.bias).chunk(3, dim=-1)
    after = (h @ gru.recurrent + gru.recurrent_bias).chunk(3, dim=-1)
    z, r = torch.sigmoid(update + after[0]), torch.sigmoid(reset + after[1])
    return z * h + (1 - z) * torch.tanh(candidate + r * after[2])


def torch_linear(layer, x):
    kernel, bias = (
        leaf if isinstance(leaf, torch.Tensor) else tensor(leaf)
        for leaf in (layer.kernel, layer.bias)
    )
    return x @ kernel + bias


def torch_normal(layers, x):
    mean, raw = torch_linear(layers[1], F.elu(torch_linear(layers[0], x))).chunk(2, dim=-1)
    return torch.distributions.Normal(mean, F.softplus(raw) + 0.1)


def test_recurrence():
    """One step of the GRU; PyTorch resets after the product as well."""
    gru, x, h = make().gru, normal(5, HIDDEN), normal(5, DETER, seed=1)
    ours = jax.jit(rssm.gru_step)(gru, x, h)
    np.testing.assert_allclose(
        ours, torch_gru(gru)(tensor(x), tensor(h)).detach(), rtol=1e-5, atol=1e-6
    )


def test_states_priors_and_posteriors_along_sequences():
    params, time, batch = make(), 7, 4
    embedding, action = normal(time, batch, EMBEDDING), normal(time, batch, ACTION, seed=1)
    key = jax.random.key(5)
    states, priors, posteriors = jax.jit(rssm.observe)(params, embedding, action, key)
    noise = jax.random.normal(key, (time, batch, STOCH))
    cell = torch_gru(params.gru)
    deter, stoch = torch.zeros(batch, DETER).double(), torch.zeros(batch, STOCH).double()
    for t in range(time):
        x = F.elu(torch_linear(params.into, torch.cat([stoch, tensor(action[t])], 1)))
        deter = cell(x, deter)
        prior = torch_normal(params.prior, deter)
        posterior = torch_normal(params.posterior, torch.cat([deter, tensor(embedding[t])], 1))
        stoch = posterior.mean + posterior.stddev * tensor(noise[t])
        for ours, theirs in (
            (states.deter, deter),
            (states.stoch, stoch),
            (priors.mean, prior.mean),
            (priors.std, prior.stddev),
            (posteriors.mean, posterior.mean),
            (posteriors.std, posterior.stddev),
        ):
            np.testing.assert_allclose(ours[t], theirs.detach(), rtol=2e-4, atol=1e-5)
        expected = torch.distributions.kl_divergence(posterior, prior).sum(-1)
        ours = rssm.kl_divergence(
            *(jax.tree.map(lambda leaf, t=t: leaf[t], n) for n in (posteriors, priors))
        )
        np.testing.assert_allclose(ours, expected.detach(), rtol=1e-3, atol=1e-4)


def test_one_step_at_a_time_is_the_same():
    """What acting does, against what training does."""
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
    params = rssm.init(
        jax.random.key(0), action_dim=6, embedding_dim=1024, deter=200, stoch=30, hidden=200
    )
    for layer in (params.into, *params.prior, *params.posterior):
        bound = (6 / sum(layer.kernel.shape)) ** 0.5
        assert 0.98 * bound < float(jnp.abs(layer.kernel).max()) <= bound
        np.testing.assert_array_equal(layer.bias, 0)
    np.testing.assert_allclose(
        params.gru.recurrent @ params.gru.recurrent.T, np.eye(200), atol=1e-4
    )
    np.testing.assert_array_equal(params.gru.bias, 0)
    np.testing.assert_array_equal(params.gru.recurrent_bias, 0)
