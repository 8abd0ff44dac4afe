"""Code that RND and ICM share: both bonuses are prediction errors."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import jax
import optax
from jaxtyping import Array, Float, Num, PRNGKeyArray

from re3_jax import random_encoder, schedules
from re3_jax.envs.base import EnvSpec
from re3_jax.initializers import Scheme
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import Info, IntrinsicReward, chain
from re3_jax.random_encoder import EncoderParams, ImageInput

if TYPE_CHECKING:
    from re3_jax.intrinsic.icm import ICMConfig
    from re3_jax.intrinsic.rnd import RNDConfig

Config: TypeAlias = "RNDConfig | ICMConfig"
Normalization = Literal["none", "running_std"]
Params = TypeVar("Params")


def check(config: Config) -> None:
    """Validates the fields that both configurations have.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """
    for name in ("hidden_dim", "latent_dim", "image_crop", "num_filters"):
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1, but it is {getattr(config, name)}")
    if not 0 < config.learning_rate < math.inf:
        raise ValueError(
            f"learning_rate must be a finite number above 0, but it is {config.learning_rate}"
        )
    choices_of = {
        "normalize": Normalization,
        "encoder_init": Scheme,
        "image_input": ImageInput,
    }
    for name, choices in choices_of.items():
        check_choice(name, getattr(config, name), get_args(choices))
    schedules.exponential_decay(config.beta, config.rho)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Rejects a value that is none of the choices.

    Raises:
      ValueError: if it is none of them; the message names them.
    """
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}: choose one of {', '.join(choices)}")


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


def scaled(config: Config, bonus: IntrinsicReward) -> IntrinsicReward:
    """The complete bonus: applies `normalize`, then beta_t = beta (1 - rho)^t."""
    steps = [transforms.scale_by_schedule(schedules.exponential_decay(config.beta, config.rho))]
    if config.normalize == "running_std":
        steps.insert(0, transforms.normalize_by_running_std())
    return chain(bonus, *steps)
