"""State entropy in the space of an inverse dynamics encoder (the paper's "SE w/ Inverse dynamics").

The encoder is separate from the agent's and trains on each batch "to predict actions from two
consecutive observations" by "2 fully-connected layers with ReLU activations [...] on top of encoder
representations" (paper, Appendix "Implementation details for representation learning baselines").
Its latents need not represent anything that no action changes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import checks
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import action_head
from re3_jax.intrinsic.action_head import ActionHead
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward
from re3_jax.intrinsic.encoder_config import EncoderConfig
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.network_training import NetworkConfig, descend
from re3_jax.intrinsic.re3 import encoder_of
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import Encoder, refuse_ensemble, scaled, state_entropy
from re3_jax.random_encoder import EncoderParams


class InverseDynamicsParams(NamedTuple):
    """The encoder, and the layers that predict the action."""

    encoder: EncoderParams
    head: ActionHead


@inherits("params")
class InverseDynamicsState(NamedTuple):
    """The trained parameters and Adam's state."""

    params: InverseDynamicsParams
    opt_state: optax.OptState


def inverse_dynamics(config: RE3Config, learned: LearnedEncoderConfig) -> IntrinsicReward:
    """The bare mean distance in the latent space of `inverse_dynamics_encoder`.

    Raises:
      ValueError: if `ensemble_size` is above 1, or options are of another class.
    """
    checks.made_with(RE3Config, config, "inverse_dynamics")
    checks.made_with(LearnedEncoderConfig, learned, "inverse_dynamics")
    return state_entropy(config, inverse_dynamics_encoder(config, learned), learned.neighbours)


def from_config(config: RE3Config, learned: LearnedEncoderConfig) -> IntrinsicReward:
    """The complete bonus: distance, normalisation, log(1 + .), beta_t.

    Raises:
      ValueError: if `ensemble_size` is above 1, or options are of another class.
    """
    return scaled(config, inverse_dynamics(config, learned))


def inverse_dynamics_encoder(config: EncoderConfig, learned: LearnedEncoderConfig) -> Encoder:
    """RE3's encoder for `config`, but trained; observations are not augmented.

    `update` reports `inverse_dynamics_loss`.

    Raises:
      ValueError: if `config` is of an ensemble.
    """
    if isinstance(config, RE3Config):
        refuse_ensemble(config, "inverse_dynamics")
    network = encoder_of(config)
    optimizer = optax.adam(learned.learning_rate)

    def init(key: PRNGKeyArray, spec: EnvSpec) -> InverseDynamicsState:
        encoder_key, head_key = jax.random.split(key)
        inputs, space = 2 * network.latent_dim(spec), spec.action_space
        head = action_head.init(head_key, inputs, learned.hidden_dim, space, config.encoder_init)
        params = InverseDynamicsParams(network.init(encoder_key, spec), head)
        return InverseDynamicsState(params, optimizer.init(params))

    def encode(
        state: InverseDynamicsState, observation: Shaped[Array, " batch *observation"]
    ) -> Float[Array, "batch latent"]:
        return network.encode(state.params.encoder, observation)

    def visible(
        state: InverseDynamicsState, observation: Shaped[Array, " batch *observation"]
    ) -> Shaped[Array, " batch *visible"]:
        return network.visible(state.params.encoder, observation)

    def update(
        state: InverseDynamicsState, batch: IntrinsicBatch, key: PRNGKeyArray
    ) -> tuple[InverseDynamicsState, Info]:
        del key
        batch = batch.with_known_next()
        action = batch.required("action")
        both = jnp.concatenate([batch.observation, batch.required("next_observation")])

        def loss_of(params: InverseDynamicsParams) -> tuple[Float[Array, ""], Info]:
            before, after = jnp.split(network.encode(params.encoder, both), 2)
            prediction = action_head.predict(params.head, jnp.concatenate([before, after], axis=1))
            loss = action_loss(params.head, prediction, action)
            return loss, {"inverse_dynamics_loss": loss}

        params, opt_state, info = descend(optimizer, loss_of, state.params, state.opt_state)
        return InverseDynamicsState(params, opt_state), info

    return Encoder(init, encode, network.latent_dim, update, visible)


def controllable_encoder(config: NetworkConfig) -> Encoder:
    """Makes `inverse_dynamics_encoder` from the options of a bonus that is no state entropy."""
    learned = LearnedEncoderConfig(learning_rate=config.learning_rate, hidden_dim=config.hidden_dim)
    return inverse_dynamics_encoder(config, learned)


def action_loss(
    head: ActionHead,
    prediction: Float[Array, "batch outputs"],
    action: Shaped[Array, " batch *action"],
) -> Float[Array, ""]:
    """Mean cross-entropy in nats for discrete actions, else mean squared error per component."""
    taken = action_head.as_numbers(head, action)
    if head.is_discrete:
        return jnp.mean(optax.softmax_cross_entropy(prediction, taken))
    return jnp.mean(jnp.square(prediction - taken))
