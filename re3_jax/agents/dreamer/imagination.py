"""What Dreamer learns from imagined steps: losses and gradients of the actor and the value.

From each state that was seen the actor imagines `horizon` steps.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from re3_jax.agents.dreamer import losses, networks, policy
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.networks import WorldModel
from re3_jax.cpu import flat_random
from re3_jax.cpu.parts import mean_over_batch
from re3_jax.networks import rssm
from re3_jax.networks.mlp import MLP
from re3_jax.networks.rssm import State


class Noise(NamedTuple):
    """Standard normal noise of all imagined steps."""

    action: Float[Array, "horizon start action"]
    state: Float[Array, "horizon start stoch"]


class Imagined(NamedTuple):
    """What the value learns from.

    Attributes:
      features: of all imagined states.
      returns: of all but the last.
      weight: how much each of them counts.
    """

    features: Float[Array, "horizon start features"]
    returns: Float[Array, "horizon-1 start"]
    weight: Float[Array, "horizon-1 start"]


class Learned(NamedTuple):
    """Both losses and their gradients, and the mean of the imagined returns."""

    actor_loss: Float[Array, ""]
    actor_gradient: MLP
    value_loss: Float[Array, ""]
    value_gradient: MLP
    return_mean: Float[Array, ""]


def draw_noise(key: PRNGKeyArray, horizon: int, starts: int, action_dim: int, stoch: int) -> Noise:
    """Noise of each step from keys of its own."""

    def of_step(key: PRNGKeyArray) -> Noise:
        action_key, state_key = jax.random.split(key)
        return Noise(
            flat_random.normal(action_key, (starts, action_dim)),
            flat_random.normal(state_key, (starts, stoch)),
        )

    return jax.lax.map(of_step, jax.random.split(key, horizon))


def learn(
    config: DreamerConfig,
    actor: MLP,
    value: MLP,
    model: WorldModel,
    start: State,
    noise: Noise,
) -> Learned:
    """Means over all states that were seen.

    Args:
      config: numbers of the agent.
      actor: what imagines.
      value: what is expected after the horizon.
      model: what is imagined in.
      start: states [start, ...], without gradients.
      noise: of the imagined steps.
    """

    def of_starts(start: State, noise: Noise) -> Learned:
        (actor_loss, imagined), d_actor = jax.value_and_grad(
            partial(_actor_loss, config), has_aux=True
        )(actor, model, value, start, noise)
        loss, d_value = jax.value_and_grad(_value_loss)(value, config, imagined)
        return Learned(actor_loss, d_actor, loss, d_value, jnp.mean(imagined.returns))

    return mean_over_batch(of_starts, start, noise, axes=(0, 1))


def imagine(
    config: DreamerConfig, actor: MLP, model: WorldModel, start: State, noise: Noise
) -> Float[Array, "horizon start features"]:
    """Features of the states that the actor expects to come to."""
    actor = networks.cast(actor, config.precision)

    def step(state: State, noise: Noise):
        seen = jax.lax.stop_gradient(rssm.features(state))
        chosen = policy.distribution(actor, seen, config)
        action = policy.squash(noise.action, chosen)
        deter = rssm.advance(model.dynamics, state, action)
        prior = rssm.prior(model.dynamics, deter)
        state = State(deter, prior.mean + prior.std * noise.state)
        return state, rssm.features(state)

    return jax.lax.scan(step, start, noise)[1]


def _actor_loss(
    config: DreamerConfig,
    actor: MLP,
    model: WorldModel,
    value: MLP,
    start: State,
    noise: Noise,
) -> tuple[Float[Array, ""], Imagined]:
    """Minus the mean of the imagined returns, each weighted by the discounts before it."""
    features = imagine(config, actor, model, start, noise)

    def predict(head: MLP) -> Float[Array, "horizon start"]:
        return networks.scalar(networks.cast(head, config.precision), features)

    reward, values = predict(model.reward), predict(value)
    if model.discount is None:
        discount = jnp.full((len(reward), 1), config.discount)
    else:
        discount = jax.nn.sigmoid(predict(model.discount))
    returns = losses.lambda_returns(
        reward[:-1], values[:-1], discount[:-1], values[-1], config.td_lambda
    )
    weight = losses.discount_weights(discount[:-1])
    imagined = Imagined(features, returns, weight)
    return -jnp.mean(weight * returns), jax.lax.stop_gradient(imagined)


def _value_loss(value: MLP, config: DreamerConfig, imagined: Imagined) -> Float[Array, ""]:
    """Weighted squared error of the values against the returns."""
    # Of the last state too, which does not count: the actor's loss has computed the same.
    values = networks.scalar(networks.cast(value, config.precision), imagined.features)
    error = values[:-1] - imagined.returns
    return jnp.mean(imagined.weight * 0.5 * error**2)
