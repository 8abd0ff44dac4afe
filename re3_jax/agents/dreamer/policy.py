"""Dreamer's actor: a normal distribution squashed by tanh, its mean bounded before that."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from re3_jax.agents.dreamer import networks
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.cpu import flat_random
from re3_jax.distributions import tanh_log_det
from re3_jax.networks.mlp import MLP


class TanhNormal(NamedTuple):
    """tanh of a diagonal normal distribution; both parameters are of that one."""

    mean: Float[Array, "*batch action"]
    std: Float[Array, "*batch action"]


def distribution(
    actor: MLP, features: Float[Array, "*batch features"], config: DreamerConfig
) -> TanhNormal:
    """The policy in a state."""
    mean, raw = jnp.split(networks.head(actor, features), 2, axis=-1)
    # softplus of this is init_std.
    shift = float(config.init_std + np.log(-np.expm1(-config.init_std)))
    mean = config.mean_scale * jnp.tanh(mean / config.mean_scale)
    return TanhNormal(mean, jax.nn.softplus(raw + shift) + config.min_std)


def sample(key: PRNGKeyArray, policy: TanhNormal) -> Float[Array, "*batch action"]:
    """An action that gradients pass through."""
    return squash(flat_random.normal(key, policy.mean.shape), policy)


def squash(
    noise: Float[Array, "*batch action"], policy: TanhNormal
) -> Float[Array, "*batch action"]:
    """The action that standard normal noise stands for; gradients pass through."""
    return jnp.tanh(policy.mean + policy.std * noise)


def mode(key: PRNGKeyArray, policy: TanhNormal, num_samples: int) -> Float[Array, "*batch action"]:
    """The most probable of some samples: the density's true maximum has no closed form."""
    noise = flat_random.normal(key, (num_samples, *policy.mean.shape))
    before = policy.mean + policy.std * noise
    log_density = -0.5 * noise**2 - tanh_log_det(before)
    best = jnp.argmax(jnp.sum(log_density, axis=-1), axis=0)
    return jnp.tanh(jnp.take_along_axis(before, best[None, ..., None], axis=0)[0])
