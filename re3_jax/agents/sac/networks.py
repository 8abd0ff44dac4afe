"""SAC's actor and critic, from pixels or from flat observations.

Pixels: four convolutions, tied between actor and critic (the critic trains them), then in each
of the two a linear layer, LayerNorm and tanh of its own. Flat observations enter the actor and
the Q functions as they are. All weights are orthogonal (gain sqrt(2) for convolutions, on the
flattened kernel, and 1 for linear layers), all biases 0 (denisyarats/drq, the released code).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import distributions, initializers
from re3_jax.agents.sac.config import SACConfig
from re3_jax.initializers import Layer
from re3_jax.networks import pixels
from re3_jax.networks.pixels import ConvLayer

LAYER_NORM_EPS = 1e-5
"""PyTorch's default."""


class Head(NamedTuple):
    """What turns the features of the convolutions into an encoding."""

    linear: Layer
    scale: Float[Array, " latent"]
    bias: Float[Array, " latent"]


class Critic(NamedTuple):
    """The tied convolutions, the critic's head, and two Q functions.

    For flat observations `convs` is empty and `head` None.
    """

    convs: tuple[ConvLayer, ...]
    head: Head | None
    q: tuple[tuple[Layer, ...], tuple[Layer, ...]]


class Actor(NamedTuple):
    """The actor's head (None for flat observations) and the policy."""

    head: Head | None
    policy: tuple[Layer, ...]


def init(
    key: PRNGKeyArray, config: SACConfig, image_shape: tuple[int, ...], action_dim: int
) -> tuple[Actor, Critic]:
    """Weights for observations of `image_shape`, as the networks see them (after the crop).

    Raises:
      ValueError: if images are too small for the convolutions.
    """
    hidden, convs, heads = config.hidden_dim, [], []
    encoding_dim = math.prod(image_shape)
    if len(image_shape) == 3:
        height, width, channels = image_shape
        convs = list(pixels.kernel_shapes(channels, config.num_filters))
        flat_dim = pixels.flat_dim(height, width, config.num_filters)
        encoding_dim = config.latent_dim
        heads = [(flat_dim, encoding_dim)] * 2
    q = [(encoding_dim + action_dim, hidden), (hidden, hidden), (hidden, 1)]
    policy = [(encoding_dim, hidden), (hidden, hidden), (hidden, 2 * action_dim)]
    made = iter(initializers.layers("orthogonal", key, [*convs, *heads, *q, *q, *policy]))

    def linear() -> Layer:
        layer = next(made)
        return layer._replace(kernel=layer.kernel / initializers.RELU_GAIN)

    def head() -> Head:
        return Head(linear(), jnp.ones(config.latent_dim), jnp.zeros(config.latent_dim))

    conv_layers = tuple(ConvLayer(*next(made)) for _ in convs)
    critic_head, actor_head = (head(), head()) if heads else (None, None)
    first, second, last = (tuple(linear() for _ in range(3)) for _ in range(3))
    return Actor(actor_head, last), Critic(conv_layers, critic_head, (first, second))


def features(
    convs: tuple[ConvLayer, ...], observation: Shaped[Array, " batch *observation"]
) -> Float[Array, "batch flat"]:
    """What actor and critic share: the convolutions, or a flat observation itself."""
    if convs:
        first, second, third, fourth = convs
        return pixels.features((first, second, third, fourth), observation)
    return observation.astype(jnp.float32)


def encode(head: Head | None, flat: Float[Array, "batch flat"]) -> Float[Array, "batch encoding"]:
    """Linear, LayerNorm, tanh; flat observations pass unchanged."""
    if head is None:
        return flat
    x = _linear(head.linear, flat)
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    x = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + LAYER_NORM_EPS)
    return jnp.tanh(x * head.scale + head.bias)


def policy(
    actor: Actor, flat: Float[Array, "batch flat"], config: SACConfig
) -> tuple[Float[Array, "batch actions"], Float[Array, "batch actions"]]:
    """Mean and log standard deviation of the Gaussian before the tanh."""
    mean, raw = jnp.split(_mlp(actor.policy, encode(actor.head, flat)), 2, axis=-1)
    return mean, distributions.squash_log_std(raw, config.log_std_min, config.log_std_max)


def q_values(
    critic: Critic, flat: Float[Array, "batch flat"], action: Float[Array, "batch actions"]
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """Both Q functions; they share the critic's encoding."""
    x = jnp.concatenate([encode(critic.head, flat), action], axis=-1)
    first, second = critic.q
    return _mlp(first, x)[:, 0], _mlp(second, x)[:, 0]


def _linear(layer: Layer, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    return x @ layer.kernel + layer.bias


def _mlp(
    layers: tuple[Layer, ...], x: Float[Array, "batch inputs"]
) -> Float[Array, "batch outputs"]:
    for layer in layers[:-1]:
        x = jax.nn.relu(_linear(layer, x))
    return _linear(layers[-1], x)
