"""Options of an encoder with the random encoder's architecture, trained or not."""

from dataclasses import dataclass

from jaxtyping import Array, Float, Num, PRNGKeyArray

from re3_jax import checks, random_encoder
from re3_jax.envs.base import EnvSpec
from re3_jax.initializers import Scheme
from re3_jax.networks.conv_stack import Torso
from re3_jax.random_encoder import EncoderParams, ImageInput


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Options of the encoder of a bonus.

    Attributes:
      encoder_init: initialisation of the weights (see `initializers`).
      latent_dim: length of a latent; a MiniGrid view always gives 64.
      image_input: the part of a frame stack that is encoded, the whole newest frame (RE3's
        released code) or the centre crop of all frames.
      image_crop: height and width of that crop in pixels.
      torso: the convolutions over colour frames, see `conv_stack.colour`.
      num_filters: filters of each of them.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    encoder_init: Scheme = "torch"
    latent_dim: int = 64
    image_input: ImageInput = "newest_frame"
    image_crop: int = 84
    torso: Torso = "rad"
    num_filters: int = 32

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.at_least(self, 1, "latent_dim", "image_crop", "num_filters")
        checks.one_of(self, encoder_init=Scheme, image_input=ImageInput, torso=Torso)


def init(
    key: PRNGKeyArray, spec: EnvSpec, config: EncoderConfig, ensemble_size: int = 1
) -> EncoderParams:
    """Draws the weights, as `random_encoder.init` does.

    Raises:
      ValueError: if the task's images do not suit `image_input` and `image_crop`.
    """
    return random_encoder.init(
        key,
        spec,
        init=config.encoder_init,
        latent_dim=config.latent_dim,
        ensemble_size=ensemble_size,
        image_input=config.image_input,
        image_crop=config.image_crop,
        torso=config.torso,
        num_filters=config.num_filters,
    )


def encode(
    params: EncoderParams, observation: Num[Array, " batch *observation"], config: EncoderConfig
) -> Float[Array, "batch latent"] | Float[Array, "member batch latent"]:
    """Latents; images are not augmented, so that equal observations have equal latents."""
    return random_encoder.encode(
        params, observation, image_input=config.image_input, image_crop=config.image_crop
    )
