"""The intrinsic curiosity module (ICM; Pathak et al., 2017), a baseline of the paper.

An inverse model predicts the action from phi(o_t) and phi(o_{t+1}), so the encoder phi learns what
the agent controls. A forward model predicts phi(o_{t+1}) from phi(o_t) and the action; its error is
the reward, r_t = 1/2 ||phi(o_{t+1}) - forward(phi(o_t), a_t)||^2. All three are trained together on
0.2 forward + 0.8 inverse (appendix, "Implementation details for exploration baselines"). The
forward loss trains the encoder, too, as in the work of ICM's authors.

The inverse loss is the cross-entropy of the action's logits for discrete actions (ICM's authors)
and the L2 norm of the action's error, not squared, for continuous actions (paper).

This module rewards single transitions. The agent computes returns from these rewards, with its own
discount and episode ends.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax import checks, initializers, random_encoder
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import action_head, encoder_config, weight
from re3_jax.intrinsic.action_head import ActionHead
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, Step, no_index
from re3_jax.intrinsic.network_training import NetworkConfig, descend
from re3_jax.networks import mlp
from re3_jax.networks.mlp import MLP
from re3_jax.random_encoder import EncoderParams


@dataclass(frozen=True, kw_only=True)
class ICMConfig(NetworkConfig):
    """Options of the bonus beta_t r_t; the default weight is DoorKey-6x6's.

    Inverse and forward model have two hidden layers each, `hidden_dim` wide.

    Attributes:
      forward_weight: weight of the forward loss.
      inverse_weight: weight of the inverse loss.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    forward_weight: float = 0.2
    inverse_weight: float = 0.8

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        checks.not_negative(self, "forward_weight", "inverse_weight")


class ICMParams(NamedTuple):
    """Parameters of the encoder, the inverse model and the forward model."""

    encoder: EncoderParams
    inverse: ActionHead
    forward: MLP


@inherits("params")
class ICMState(NamedTuple):
    """The learned parameters and Adam's state."""

    params: ICMParams
    opt_state: optax.OptState


class Errors(NamedTuple):
    """Errors of the two models, and the features and action prediction behind them.

    Attributes:
      forward: half the squared distance between phi(o_{t+1}) and its prediction.
      inverse: cross-entropy in nats, or L2 norm of the action's error.
      predicted_action: logits, or the action itself.
      features: phi(o_t).
    """

    forward: Float[Array, " batch"]
    inverse: Float[Array, " batch"]
    predicted_action: Float[Array, "batch action"]
    features: Float[Array, "batch latent"]


def init_params(key: PRNGKeyArray, spec: EnvSpec, config: ICMConfig) -> ICMParams:
    """Draws all three networks.

    Raises:
      ValueError: if the task's images do not suit `image_input` and `image_crop`.
    """
    encoder_key, inverse_key, forward_key = jax.random.split(key, 3)
    latent, space = random_encoder.latent_dim_of(spec, config.latent_dim), spec.action_space
    width, scheme = config.hidden_dim, config.encoder_init
    forward = mlp.kernel_shapes(latent + space.num_outputs, width, width, latent)
    return ICMParams(
        encoder=encoder_config.init(encoder_key, spec, config),
        inverse=action_head.init(inverse_key, 2 * latent, width, space, scheme),
        forward=tuple(initializers.layers(scheme, forward_key, forward)),
    )


def errors(params: ICMParams, batch: IntrinsicBatch, config: ICMConfig) -> Errors:
    """Both models' errors on each transition, float32 at full matmul precision.

    Raises:
      ValueError: the actions are not of the task's kind.
    """
    # One pass over both: one large convolution costs less than two small ones.
    both = jnp.concatenate([batch.observation, batch.required("next_observation")])
    random_encoder.refuse_scaled_images(params.encoder, both)
    features, next_features = jnp.split(encoder_config.encode(params.encoder, both, config), 2)
    action = action_head.as_numbers(params.inverse, batch.required("action"))
    with jax.default_matmul_precision("highest"):
        predicted_action = action_head.predict(
            params.inverse, jnp.concatenate([features, next_features], axis=1)
        )
        predicted_features = mlp.mlp(params.forward, jnp.concatenate([features, action], axis=1))
    if params.inverse.is_discrete:
        inverse = optax.softmax_cross_entropy(predicted_action, action)
    else:
        inverse = optax.safe_norm(action - predicted_action, 0.0, axis=-1)
    forward = 0.5 * jnp.sum(jnp.square(next_features - predicted_features), axis=1)
    return Errors(forward, inverse, predicted_action, features)


def icm(config: ICMConfig) -> IntrinsicReward:
    """The bare forward error, from the networks as they are before the update.

    Raises:
      ValueError: if the options are of another class.
    """
    checks.made_with(ICMConfig, config, "icm")
    optimizer = optax.adam(config.learning_rate)

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> ICMState:
        del num_lanes
        params = init_params(key, spec, config)
        return ICMState(params, optimizer.init(params))

    def observe(state: ICMState, step: Step) -> tuple[ICMState, Int[Array, " lane"]]:
        return state, no_index(step)

    def reward(
        state: ICMState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], ICMState, Info]:
        with jax.named_scope("icm_reward"):
            found = errors(state.params, batch.with_known_next(), config)
        paid = batch.paid_for_known(found.forward)
        return paid, state, {"icm_feature_std": jnp.mean(jnp.std(found.features, axis=0))}

    def update(state: ICMState, batch: IntrinsicBatch, key: PRNGKeyArray) -> tuple[ICMState, Info]:
        del key
        batch = batch.with_known_next()

        def loss(params: ICMParams) -> tuple[Float[Array, ""], Info]:
            found = errors(params, batch, config)
            forward, inverse = jnp.mean(found.forward), jnp.mean(found.inverse)
            info = {"icm_forward_loss": forward, "icm_inverse_loss": inverse}
            if params.inverse.is_discrete:
                is_right = jnp.argmax(found.predicted_action, axis=1) == batch.action
                info["icm_inverse_accuracy"] = jnp.mean(is_right, dtype=jnp.float32)
            return config.forward_weight * forward + config.inverse_weight * inverse, info

        with jax.named_scope("icm_update"):
            params, opt_state, info = descend(optimizer, loss, state.params, state.opt_state)
        return ICMState(params, opt_state), info

    return IntrinsicReward(init, observe, reward, update)


def from_config(config: ICMConfig) -> IntrinsicReward:
    """The complete bonus: error, normalisation, beta_t."""
    return weight.scaled(config, icm(config))
