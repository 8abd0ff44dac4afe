"""Options, encoder and training of bonuses that learn networks, such as RND and ICM."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Num, PRNGKeyArray

from re3_jax import checks, random_encoder
from re3_jax.envs.base import EnvSpec
from re3_jax.initializers import Scheme
from re3_jax.intrinsic.base import Info
from re3_jax.intrinsic.weight import ScaledConfig
from re3_jax.networks.conv_stack import Torso
from re3_jax.random_encoder import EncoderParams, ImageInput

Params = TypeVar("Params")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(ScaledConfig):
    """Options of a bonus beta_t r_t with networks: an encoder, and hidden layers on top of it.

    Attributes:
      learning_rate: learning rate of Adam.
      hidden_dim: units of each hidden layer that follows an encoder.
      latent_dim: length of an encoder's output; a MiniGrid view always gives 64.
      encoder_init: initialisation of all weights (see `initializers`).
      image_input: the part of a frame stack that is encoded, the whole newest frame or the centre
        crop of all frames.
      image_crop: height and width of that crop in pixels.
      torso: the convolutions over colour frames, see `conv_stack.colour`.
      num_filters: filters of each of them.
    """

    learning_rate: float = 1e-4
    hidden_dim: int = 1024
    latent_dim: int = 50
    encoder_init: Scheme = "torch"
    image_input: ImageInput = "stacked_crop"
    image_crop: int = 84
    torso: Torso = "rad"
    num_filters: int = 32

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        checks.at_least(self, 1, "hidden_dim", "latent_dim", "image_crop", "num_filters")
        checks.positive(self, "learning_rate")
        checks.one_of(self, encoder_init=Scheme, image_input=ImageInput, torso=Torso)


def init_encoder(key: PRNGKeyArray, spec: EnvSpec, config: NetworkConfig) -> EncoderParams:
    """Weights of an encoder with the random encoder's architecture.

    Raises:
      ValueError: if the task's images do not suit `image_input` and `image_crop`.
    """
    return random_encoder.init(
        key,
        spec,
        init=config.encoder_init,
        latent_dim=config.latent_dim,
        image_input=config.image_input,
        image_crop=config.image_crop,
        torso=config.torso,
        num_filters=config.num_filters,
    )


def encode(
    params: EncoderParams, observation: Num[Array, " batch *observation"], config: NetworkConfig
) -> Float[Array, "batch latent"]:
    """Latents; images are not augmented, so that equal transitions get equal rewards."""
    return random_encoder.encode(
        params, observation, image_input=config.image_input, image_crop=config.image_crop
    )


def descend(
    optimizer: optax.GradientTransformation,
    loss: Callable[[Params], tuple[Float[Array, ""], Info]],
    params: Params,
    opt_state: optax.OptState,
) -> tuple[Params, optax.OptState, Info]:
    """One step of `optimizer` on what `loss` gives first; also returns what it gives second.

    A gradient that is not finite, such as that of a batch with NaN, changes nothing.
    """
    gradient, info = jax.grad(loss, has_aux=True)(params)
    updates, opt_state_after = optimizer.update(gradient, opt_state)
    is_finite = jnp.isfinite(optax.tree.norm(gradient))
    params, opt_state = jax.tree.map(
        lambda new, old: jnp.where(is_finite, new, old),
        (optax.apply_updates(params, updates), opt_state_after),
        (params, opt_state),
    )
    return params, opt_state, info
