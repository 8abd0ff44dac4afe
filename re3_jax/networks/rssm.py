"""The recurrent state-space model of Dreamer V1 (Hafner et al., 2020, and 2019 for the model).

A state has a deterministic part h, carried by a GRU, and a stochastic part s with a diagonal normal
distribution. The prior predicts s from the past; the posterior also uses the current observation.
Layers have Keras's default initialisation, because danijar/dreamer is written in Keras.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from re3_jax import initializers
from re3_jax.cpu import flat_random
from re3_jax.initializers import Layer
from re3_jax.networks.gru import GRU, gru_step
from re3_jax.networks.mlp import linear

MIN_STD = 0.1


class RSSM(NamedTuple):
    """Parameters of the model.

    Attributes:
      into: (s, a) to the GRU's input.
      gru: the recurrence.
      prior: two layers, h to mean and raw standard deviation of s.
      posterior: two layers, (h, embedding) to mean and raw standard deviation of s.
    """

    into: Layer
    gru: GRU
    prior: tuple[Layer, Layer]
    posterior: tuple[Layer, Layer]


class Normal(NamedTuple):
    """A diagonal normal distribution."""

    mean: Float[Array, "*batch stoch"]
    std: Float[Array, "*batch stoch"]


class State(NamedTuple):
    """h and a sample of s."""

    deter: Float[Array, "*batch deter"]
    stoch: Float[Array, "*batch stoch"]


def init(
    key: PRNGKeyArray, *, action_dim: int, embedding_dim: int, deter: int, stoch: int, hidden: int
) -> RSSM:
    """Draws the parameters: Glorot's uniform kernels, an orthogonal recurrence, zero biases."""
    key, gru_key = jax.random.split(key)
    shapes = (
        (stoch + action_dim, hidden),
        (hidden, 3 * deter),
        (deter, hidden),
        (hidden, 2 * stoch),
        (deter + embedding_dim, hidden),
        (hidden, 2 * stoch),
    )
    into, gru, *others = initializers.layers("xavier", key, shapes)
    (recurrent,) = initializers.layers("orthogonal", gru_key, [(deter, 3 * deter)])
    # Two arrays: one that is shared cannot be donated.
    biases = jnp.zeros(3 * deter), jnp.zeros(3 * deter)
    return RSSM(
        into=into,
        gru=GRU(gru.kernel, recurrent.kernel, *biases),
        prior=(others[0], others[1]),
        posterior=(others[2], others[3]),
    )


def initial(params: RSSM, batch: tuple[int, ...]) -> State:
    """The zero state, with which every sequence begins."""
    deter = params.gru.recurrent.shape[0]
    stoch = params.prior[1].bias.shape[0] // 2
    return State(jnp.zeros((*batch, deter)), jnp.zeros((*batch, stoch)))


def features(state: State) -> Float[Array, "*batch features"]:
    """The input of all heads: (s, h)."""
    return jnp.concatenate([state.stoch, state.deter], axis=-1)


def advance(
    params: RSSM, state: State, action: Float[Array, "*batch action"]
) -> Float[Array, "*batch deter"]:
    """The next h, after `action` in `state`."""
    x = jax.nn.elu(linear(params.into, jnp.concatenate([state.stoch, action], axis=-1)))
    return gru_step(params.gru, x, state.deter)


def prior(params: RSSM, deter: Float[Array, "*batch deter"]) -> Normal:
    """Prior of s, given h."""
    hidden, output = params.prior
    return _normal(output, linear(hidden, deter))


def posterior(
    params: RSSM, deter: Float[Array, "*batch deter"], embedding: Float[Array, "*batch embedding"]
) -> Normal:
    """Posterior of s, given h and the embedding of the observation."""
    hidden, output = params.posterior
    return _normal(output, linear(hidden, jnp.concatenate([deter, embedding], axis=-1)))


def sample(key: PRNGKeyArray, normal: Normal) -> Float[Array, "*batch stoch"]:
    """A reparametrised sample, through which gradients pass."""
    return normal.mean + normal.std * flat_random.normal(key, normal.mean.shape)


def observe(
    params: RSSM,
    embedding: Float[Array, "time batch embedding"],
    action: Float[Array, "time batch action"],
    key: PRNGKeyArray,
) -> tuple[State, Normal, Normal]:
    """Posterior states along sequences that begin with zeros; `action[t]` led to `embedding[t]`.

    Returns:
      the states, their priors and their posteriors, all [time, batch, ...].
    """
    hidden, output = params.posterior
    deter_dim, stoch_dim = params.gru.recurrent.shape[0], output.bias.shape[0] // 2
    # Products that need no state run for all times at once: large enough for every core.
    seen = embedding @ hidden.kernel[deter_dim:] + hidden.bias
    noise = flat_random.normal(key, (*embedding.shape[:2], stoch_dim))

    def step(state: State, inputs):
        seen, action, noise = inputs
        deter = advance(params, state, action)
        normal = _normal(output, deter @ hidden.kernel[:deter_dim] + seen)
        state = State(deter, normal.mean + normal.std * noise)
        return state, (state, normal)

    start = initial(params, embedding.shape[1:2])
    _, (states, posteriors) = jax.lax.scan(step, start, (seen, action, noise))
    return states, prior(params, states.deter), posteriors


def kl_divergence(p: Normal, q: Normal) -> Float[Array, "*batch"]:
    """KL(p || q) in nats, summed over the dimensions of s."""
    ratio = p.std / q.std
    difference = (p.mean - q.mean) / q.std
    return jnp.sum(0.5 * (ratio**2 + difference**2 - 1) - jnp.log(ratio), axis=-1)


def _normal(output: Layer, hidden: Float[Array, "*batch hidden"]) -> Normal:
    mean, raw = jnp.split(linear(output, jax.nn.elu(hidden)), 2, axis=-1)
    return Normal(mean, jax.nn.softplus(raw) + MIN_STD)
