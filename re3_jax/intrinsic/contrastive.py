"""State entropy in the space of a contrastive encoder (the paper's "SE w/ Contrastive"; APT).

The encoder is separate from the agent's and trains on each batch with CURL's loss (Srinivas et al.,
2020; paper, Appendix "Implementation details for representation learning baselines"). One augmented
copy of the batch passes through the trained encoder (queries q_i), another through its slow moving
average (keys k_j). The logits q_i^T W k_j, with learned W, classify which key belongs to each
query; i = j is right.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import augment, checks, initializers, random_encoder
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.network_training import descend
from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import Encoder, refuse_ensemble, scaled, state_entropy
from re3_jax.networks import minigrid
from re3_jax.random_encoder import EncoderParams, GreyEncoder

Images = Shaped[Array, "batch height width channels"]


class ContrastiveParams(NamedTuple):
    """The trained parameters: the encoder and W."""

    encoder: EncoderParams
    bilinear: Float[Array, "latent latent"]


@inherits("params", "key_encoder")
class ContrastiveState(NamedTuple):
    """The trained parameters, the slow key encoder, and Adam's state.

    The bonus compares latents of `params.encoder`.
    """

    params: ContrastiveParams
    key_encoder: EncoderParams
    opt_state: optax.OptState


def contrastive(config: RE3Config, learned: LearnedEncoderConfig) -> IntrinsicReward:
    """The bare mean distance in the latent space of `contrastive_encoder`.

    Raises:
      ValueError: if `ensemble_size` is above 1, or options are of another class.
    """
    checks.made_with(RE3Config, config, "contrastive")
    checks.made_with(LearnedEncoderConfig, learned, "contrastive")
    return state_entropy(config, contrastive_encoder(config, learned), learned.neighbours)


def from_config(config: RE3Config, learned: LearnedEncoderConfig) -> IntrinsicReward:
    """The complete bonus: distance, normalisation, log(1 + .), beta_t.

    Raises:
      ValueError: if `ensemble_size` is above 1, or options are of another class.
    """
    return scaled(config, contrastive(config, learned))


def contrastive_encoder(config: RE3Config, learned: LearnedEncoderConfig) -> Encoder:
    """RE3's encoder for `config`, but trained.

    Under `augmentation="crop"` it sees squares of `image_crop` pixels, random ones in training and
    the central one for latents, of the newest frame or of the whole stack (`image_input`). Under
    `augmentation="shift"` it sees what RE3's encoder sees. `update` reports `contrastive_loss`.

    Raises:
      ValueError: if `ensemble_size` is above 1; from `init`, if the task's observations are not
        images or leave no room for random crops.
    """
    refuse_ensemble(config, "contrastive")
    crops = learned.augmentation == "crop"
    network = encoder_from(
        dataclasses.replace(config, image_input="stacked_crop") if crops else config
    )
    optimizer = optax.adam(learned.learning_rate)

    only_newest = crops and config.image_input == "newest_frame"

    def frames_of(images: Images, encoder: EncoderParams) -> Images:
        is_grey = isinstance(encoder, GreyEncoder)
        return images[..., -(1 if is_grey else 3) :] if only_newest else images

    def init(key: PRNGKeyArray, spec: EnvSpec) -> ContrastiveState:
        _check_images(spec, config, crops)
        encoder_key, bilinear_key = jax.random.split(key)
        seen = spec
        if only_newest and not random_encoder.is_minigrid_view(spec):
            shape = *spec.observation_shape[:2], spec.colours
            seen = dataclasses.replace(spec, observation_shape=shape, frame_stack=1)
        encoder = network.init(encoder_key, seen)
        latent_dim = network.latent_dim(spec)
        # CURL's code draws W from [0, 1). Features of a MiniGrid view have no LayerNorm: with such
        # weights, four of five units die within a hundred updates.
        bilinear = initializers.torch_default(bilinear_key, (latent_dim, latent_dim))
        params = ContrastiveParams(encoder, bilinear)
        # A copy, because a donated state must not hold one buffer twice.
        return ContrastiveState(params, jax.tree.map(jnp.copy, encoder), optimizer.init(params))

    def encode(state: ContrastiveState, observation: Images) -> Float[Array, "batch latent"]:
        return network.encode(state.params.encoder, frames_of(observation, state.params.encoder))

    def visible(state: ContrastiveState, observation: Images) -> Images:
        encoder = state.params.encoder
        return network.visible(encoder, frames_of(observation, encoder))

    def augmented(key: PRNGKeyArray, images: Images) -> Images:
        if crops and images.shape[1:] != minigrid.OBSERVATION_SHAPE:
            return augment.random_crop(key, images, config.image_crop)
        return augment.random_shift(key, images, learned.shift_pad)

    def update(
        state: ContrastiveState, batch: IntrinsicBatch, key: PRNGKeyArray
    ) -> tuple[ContrastiveState, Info]:
        query_key, key_key = jax.random.split(key)
        images = frames_of(batch.observation, state.key_encoder)
        keys = network.encode(state.key_encoder, augmented(key_key, images))
        query_images = augmented(query_key, images)

        def loss_of(params: ContrastiveParams) -> tuple[Float[Array, ""], Info]:
            queries = network.encode(params.encoder, query_images)
            loss = contrastive_loss(queries, params.bilinear, keys)
            return loss, {"contrastive_loss": loss}

        params, opt_state, info = descend(optimizer, loss_of, state.params, state.opt_state)
        key_encoder = optax.incremental_update(params.encoder, state.key_encoder, learned.momentum)
        return ContrastiveState(params, key_encoder, opt_state), info

    return Encoder(init, encode, network.latent_dim, update, visible)


def contrastive_loss(
    queries: Float[Array, "batch latent"],
    bilinear: Float[Array, "latent latent"],
    keys: Float[Array, "batch latent"],
) -> Float[Array, ""]:
    """Mean cross-entropy of the logits q_i^T W k_j against the diagonal, in nats.

    The softmax subtracts the maximum of each row, so large logits do not overflow.
    """
    logits = queries @ (bilinear @ keys.T)
    return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(logits, axis=1)))


def _check_images(spec: EnvSpec, config: RE3Config, crops: bool) -> None:
    if not spec.is_image:
        raise ValueError(
            f"contrastive learning needs images that it can crop or shift, which {spec.task} does "
            "not have: choose inverse_dynamics, re3 or another bonus"
        )
    if not crops or random_encoder.is_minigrid_view(spec):
        return
    height, width, _ = spec.observation_shape
    if config.image_crop >= min(height, width):
        raise ValueError(
            f"images of {height}x{width} pixels leave no room for random crops of "
            f"{config.image_crop}x{config.image_crop}: lower image_crop, render larger images or "
            'set augmentation to "shift"'
        )
