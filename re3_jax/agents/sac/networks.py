"""SAC's actor and critic, from pixels or from flat observations.

Pixels: four convolutions, tied between actor and critic (the critic trains them), then in each
of the two a linear layer, LayerNorm and tanh of its own. Flat observations enter the actor and
the Q functions as they are. All weights are orthogonal (gain sqrt(2) for convolutions, on the
flattened kernel, and 1 for linear layers), all biases 0 (denisyarats/drq, the released code).
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import distributions, initializers
from re3_jax.agents.sac.config import SACConfig
from re3_jax.cpu.frames import map_frames
from re3_jax.initializers import Layer
from re3_jax.networks import conv_stack
from re3_jax.networks.conv_stack import ConvStack
from re3_jax.networks.mlp import MLP, kernel_shapes, layer_norm, linear, mlp

LAYER_NORM_EPSILON = 1e-5
"""PyTorch's default; layer normalisation adds it to the variance."""


class Head(NamedTuple):
    """What turns the features of the convolutions into an encoding."""

    linear: Layer
    scale: Float[Array, " latent"]
    bias: Float[Array, " latent"]


class Critic(NamedTuple):
    """The tied convolutions, the critic's head, and two Q functions.

    For flat observations `convs` and `head` are None.
    """

    convs: ConvStack | None
    head: Head | None
    q: tuple[MLP, MLP]


class Actor(NamedTuple):
    """The actor's head (None for flat observations) and the policy."""

    head: Head | None
    policy: MLP


def init(
    key: PRNGKeyArray,
    config: SACConfig,
    image_shape: tuple[int, ...],
    action_dim: int,
    frame_stack: int,
) -> tuple[Actor, Critic]:
    """Weights for observations of `image_shape`, as the networks see them (after the crop).

    An image is a stack of `frame_stack` frames.

    Raises:
      ValueError: if images are too small for the convolutions.
    """
    hidden, kernels, heads = config.hidden_dim, [], []
    encoding_dim = math.prod(image_shape)
    convs = conv_stack.colour(config.torso, config.num_filters)
    if is_image := len(image_shape) == 3:
        height, width, channels = image_shape
        kernels = conv_stack.kernel_shapes(convs, channels)
        encoding_dim = config.latent_dim
        heads = [(conv_stack.flat_dim(convs, height, width), encoding_dim)] * 2
    q = kernel_shapes(encoding_dim + action_dim, hidden, hidden, 1)
    policy = kernel_shapes(encoding_dim, hidden, hidden, 2 * action_dim)
    made = iter(initializers.layers("orthogonal", key, [*kernels, *heads, *q, *q, *policy]))

    def head() -> Head:
        return Head(next(made), jnp.ones(config.latent_dim), jnp.zeros(config.latent_dim))

    frames = frame_stack if config.frame_differences else 1
    stack = conv_stack.of_layers(convs, [next(made) for _ in kernels], frames) if is_image else None
    critic_head, actor_head = (head(), head()) if is_image else (None, None)
    first, second, last = (tuple(next(made) for _ in range(3)) for _ in range(3))
    return Actor(actor_head, last), Critic(stack, critic_head, (first, second))


def features(
    convs: ConvStack | None, observation: Shaped[Array, " batch *observation"]
) -> Float[Array, "batch flat"]:
    """What actor and critic share: convolutions of bytes / 255, or a flat observation itself."""
    if convs is None:
        return observation.astype(jnp.float32)
    return conv_stack.features(convs, map_frames(conv_stack.as_float, observation))


def encode(head: Head | None, flat: Float[Array, "batch flat"]) -> Float[Array, "batch encoding"]:
    """Linear, LayerNorm, tanh; flat observations pass unchanged."""
    if head is None:
        return flat
    normalized = layer_norm(linear(head.linear, flat), LAYER_NORM_EPSILON)
    return jnp.tanh(normalized * head.scale + head.bias)


def policy(
    actor: Actor, flat: Float[Array, "batch flat"], config: SACConfig
) -> tuple[Float[Array, "batch actions"], Float[Array, "batch actions"]]:
    """Mean and log standard deviation of the Gaussian before the tanh."""
    mean, raw = jnp.split(mlp(actor.policy, encode(actor.head, flat)), 2, axis=-1)
    return mean, distributions.squash_log_std(raw, config.log_std_min, config.log_std_max)


def q_values(
    critic: Critic, flat: Float[Array, "batch flat"], action: Float[Array, "batch actions"]
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """Both Q functions; they share the critic's encoding."""
    x = jnp.concatenate([encode(critic.head, flat), action], axis=-1)
    first, second = critic.q
    return mlp(first, x)[:, 0], mlp(second, x)[:, 0]
