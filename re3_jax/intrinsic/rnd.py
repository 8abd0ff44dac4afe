"""Random network distillation (RND; Burda et al., 2019), a baseline of the paper.

A predictor g learns the output of a fixed random encoder f on the observations that the agent
meets. Its error is large where the agent has seldom been: it is the reward,
r_i = ||f(o_i) - g(o_i)||_2, and also the loss (appendix, "Implementation details for exploration
baselines"). Images are not augmented, and they are normalised only if `normalize_observations` is
set.

This module rewards single transitions. The agent computes returns from these rewards, with its own
discount and episode ends.
"""

from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray, Shaped

from re3_jax import checks, initializers, random_encoder, whitening
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import encoder_config, weight
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, Step, no_index
from re3_jax.intrinsic.network_training import NetworkConfig, descend
from re3_jax.networks import mlp
from re3_jax.networks.mlp import MLP
from re3_jax.random_encoder import EncoderParams, GreyEncoder, PixelEncoder
from re3_jax.running_stats import RunningStats

Rewarded = Literal["current", "next"]
"""Which observation of a transition is rewarded: o_t (the paper) or o_{t+1} (RND's authors)."""

BYTE = 255.0


@dataclass(frozen=True, kw_only=True)
class RNDConfig(NetworkConfig):
    """Options of the bonus beta_t r_i; the default weight is DoorKey-6x6's.

    RND's authors divide rewards by the running standard deviation of their sum over time, not by
    their own. The predictor's two hidden layers, `hidden_dim` wide, follow its encoder.

    Attributes:
      rewarded: the observation before the action (current) or after it (next).
      normalize_observations: whether both networks see each element minus its running mean,
        divided by its running standard deviation and clipped to [-5, 5], as RND's authors do.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    rewarded: Rewarded = "current"
    normalize_observations: bool = False

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        checks.one_of(self, rewarded=Rewarded)


class Predictor(NamedTuple):
    """Parameters of g: an encoder like f, then two hidden layers and an output."""

    encoder: EncoderParams
    head: MLP


@inherits("target", "predictor", "seen")
class RNDState(NamedTuple):
    """The fixed f, the learned g, Adam's state, and running statistics of observations.

    `seen` is empty unless `normalize_observations` is set.
    """

    target: EncoderParams
    predictor: Predictor
    opt_state: optax.OptState
    seen: RunningStats | tuple[()]


def init_predictor(key: PRNGKeyArray, spec: EnvSpec, config: RNDConfig) -> Predictor:
    """Draws g."""
    encoder_key, head_key = jax.random.split(key)
    latent_dim = random_encoder.latent_dim_of(spec, config.latent_dim)
    shapes = mlp.kernel_shapes(latent_dim, config.hidden_dim, config.hidden_dim, latent_dim)
    head = initializers.layers(config.encoder_init, head_key, shapes)
    return Predictor(encoder_config.init(encoder_key, spec, config), tuple(head))


def predict(
    predictor: Predictor, observation: Num[Array, " batch *observation"], config: RNDConfig
) -> Float[Array, "batch latent"]:
    """Computes g(o), in float32 at full matmul precision."""
    latents = encoder_config.encode(predictor.encoder, observation, config)
    with jax.default_matmul_precision("highest"):
        return mlp.mlp(predictor.head, latents)


def rnd(config: RNDConfig) -> IntrinsicReward:
    """The bare prediction error, from the predictor as it is before the update.

    Raises:
      ValueError: if the options are of another class.
    """
    checks.made_with(RNDConfig, config, "rnd")
    optimizer = optax.adam(config.learning_rate)

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> RNDState:
        del num_lanes
        target_key, predictor_key = jax.random.split(key)
        predictor = init_predictor(predictor_key, spec, config)
        return RNDState(
            target=encoder_config.init(target_key, spec, config),
            predictor=predictor,
            opt_state=optimizer.init(predictor),
            seen=whitening.init(spec) if config.normalize_observations else (),
        )

    def observe(state: RNDState, step: Step) -> tuple[RNDState, Int[Array, " lane"]]:
        return state, no_index(step)

    def targets(state: RNDState, batch: IntrinsicBatch) -> Float[Array, "batch latent"]:
        return encoder_config.encode(state.target, _input(state, batch, config), config)

    def reward(
        state: RNDState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], RNDState, Info]:
        known = _known(batch, config)
        if isinstance(state.seen, RunningStats):
            state = state._replace(seen=whitening.update(state.seen, _rewarded(known, config)))
        with jax.named_scope("rnd_reward"):
            target = targets(state, known)
            error = _error(target, predict(state.predictor, _input(state, known, config), config))
        if config.rewarded == "next":
            error = batch.paid_for_known(error)
        return error, state, {"rnd_target_std": jnp.mean(jnp.std(target, axis=0))}

    def update(state: RNDState, batch: IntrinsicBatch, key: PRNGKeyArray) -> tuple[RNDState, Info]:
        del key
        known = _known(batch, config)
        observation = _input(state, known, config)
        target = targets(state, known) if known.targets is None else known.targets

        def loss(predictor: Predictor) -> tuple[Float[Array, ""], Info]:
            error = jnp.mean(_error(target, predict(predictor, observation, config)))
            return error, {"rnd_loss": error}

        with jax.named_scope("rnd_update"):
            predictor, opt_state, info = descend(optimizer, loss, state.predictor, state.opt_state)
        return state._replace(predictor=predictor, opt_state=opt_state), info

    return IntrinsicReward(init, observe, reward, update, targets=targets)


def from_config(config: RNDConfig) -> IntrinsicReward:
    """The complete bonus: error, normalisation, beta_t."""
    return weight.scaled(config, rnd(config))


def part_of(config: NetworkConfig) -> IntrinsicReward:
    """RND inside another bonus, with that bonus's networks: the bare error on o_t."""
    shared = {item.name: getattr(config, item.name) for item in fields(NetworkConfig)}
    return rnd(RNDConfig(**shared))


def _known(batch: IntrinsicBatch, config: RNDConfig) -> IntrinsicBatch:
    """The batch, in which every rewarded observation is known."""
    return batch if config.rewarded == "current" else batch.with_known_next()


def _rewarded(batch: IntrinsicBatch, config: RNDConfig) -> Shaped[Array, " batch *observation"]:
    return batch.required("observation" if config.rewarded == "current" else "next_observation")


def _input(
    state: RNDState, batch: IntrinsicBatch, config: RNDConfig
) -> Num[Array, " batch *observation"]:
    """The input of both networks."""
    observation = _rewarded(batch, config)
    if not isinstance(state.seen, RunningStats):
        random_encoder.refuse_scaled_images(state.target, observation)
        return observation
    whitened = whitening.whiten(state.seen, observation)
    # The encoders of pixels divide their input by 255.
    return whitened * BYTE if isinstance(state.target, PixelEncoder | GreyEncoder) else whitened


def _error(
    target: Float[Array, "batch latent"], predicted: Float[Array, "batch latent"]
) -> Float[Array, " batch"]:
    """Euclidean distances; the gradient at 0, where no derivative exists, is 0."""
    return optax.safe_norm(target - predicted, 0.0, axis=-1)
