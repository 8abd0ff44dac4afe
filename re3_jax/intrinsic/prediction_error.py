"""What the options of RND and ICM, and of bonuses built like them, have in common."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import jax
import optax
from jaxtyping import Array, Float, Num, PRNGKeyArray

from re3_jax import checks, random_encoder, schedules
from re3_jax.envs.base import EnvSpec
from re3_jax.initializers import Scheme
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import Info, IntrinsicReward, chain
from re3_jax.networks.conv_stack import Torso
from re3_jax.random_encoder import EncoderParams, ImageInput

if TYPE_CHECKING:
    from re3_jax.intrinsic.counts import CountsConfig
    from re3_jax.intrinsic.e3b import E3BConfig
    from re3_jax.intrinsic.icm import ICMConfig
    from re3_jax.intrinsic.ngu import NGUConfig
    from re3_jax.intrinsic.noveld import NovelDConfig
    from re3_jax.intrinsic.rnd import RNDConfig

Config: TypeAlias = "RNDConfig | ICMConfig | E3BConfig | NovelDConfig | NGUConfig"
Normalization = Literal["none", "running_std"]
Params = TypeVar("Params")


def check(config: Config) -> None:
    """Validates the fields that all these configurations have.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """
    checks.at_least(config, 1, "hidden_dim", "latent_dim", "image_crop", "num_filters")
    checks.positive(config, "learning_rate")
    checks.one_of(config, normalize=Normalization, encoder_init=Scheme)
    checks.one_of(config, image_input=ImageInput, torso=Torso)
    schedules.exponential_decay(config.beta, config.rho)


def init_encoder(key: PRNGKeyArray, spec: EnvSpec, config: Config) -> EncoderParams:
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
    params: EncoderParams, observation: Num[Array, " batch *observation"], config: Config
) -> Float[Array, "batch latent"]:
    """Latents; images are not augmented, so that equal transitions get equal rewards."""
    return random_encoder.encode(
        params, observation, image_input=config.image_input, image_crop=config.image_crop
    )


def descend(
    config: Config,
    loss: Callable[[Params], tuple[Float[Array, ""], Info]],
    params: Params,
    opt_state: optax.OptState,
) -> tuple[Params, optax.OptState, Info]:
    """One step of Adam; also returns the info of the loss."""
    gradient, info = jax.grad(loss, has_aux=True)(params)
    updates, opt_state = optimizer(config).update(gradient, opt_state)
    return optax.apply_updates(params, updates), opt_state, info


def optimizer(config: Config) -> Any:
    """Adam with PyTorch's defaults: betas 0.9 and 0.999, epsilon 1e-8."""
    return optax.adam(config.learning_rate)


def scaled(config: "Config | CountsConfig", bonus: IntrinsicReward) -> IntrinsicReward:
    """The complete bonus: applies `normalize`, then beta_t = beta (1 - rho)^t."""
    steps = [transforms.scale_by_schedule(schedules.exponential_decay(config.beta, config.rho))]
    if config.normalize == "running_std":
        steps.insert(0, transforms.normalize_by_running_std())
    return chain(bonus, *steps)
