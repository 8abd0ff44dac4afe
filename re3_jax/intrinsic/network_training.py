"""Options and training of bonuses that learn networks, such as RND and ICM."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from re3_jax import checks
from re3_jax.intrinsic.base import Info
from re3_jax.intrinsic.encoder_config import EncoderConfig
from re3_jax.intrinsic.weight import ScaledConfig
from re3_jax.random_encoder import ImageInput

Params = TypeVar("Params")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(EncoderConfig, ScaledConfig):
    """Options of a bonus beta_t r_t with networks: an encoder, and hidden layers on top of it.

    Attributes:
      learning_rate: learning rate of Adam.
      hidden_dim: units of each hidden layer that follows an encoder.
    """

    learning_rate: float = 1e-4
    hidden_dim: int = 1024
    latent_dim: int = 50
    image_input: ImageInput = "stacked_crop"

    def __post_init__(self) -> None:
        """Validates the fields."""
        ScaledConfig.__post_init__(self)
        EncoderConfig.__post_init__(self)
        checks.at_least(self, 1, "hidden_dim")
        checks.positive(self, "learning_rate")


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
