"""Rainbow's network: a torso, and one or two streams of two linear layers, noisy or not."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import initializers
from re3_jax.agents.rainbow.config import RainbowConfig, Torso
from re3_jax.initializers import Layer
from re3_jax.networks import conv_stack, noisy
from re3_jax.networks.conv_stack import Convs, ConvStack
from re3_jax.networks.mlp import linear
from re3_jax.networks.noisy import Noise, NoisyLayer

CONVS: dict[Torso, Convs] = {
    "canonical": conv_stack.NATURE,
    "data_efficient": conv_stack.DATA_EFFICIENT,
    "minatar": conv_stack.MINATAR,
    "mlp": (),
}

FULLY_CONNECTED: dict[Torso, int] = {"minatar": 128, "mlp": 128}
"""Width of a linear layer between convolutions and streams, where there is one."""

AnyLayer = Layer | NoisyLayer


class Stream(NamedTuple):
    """Linear, ReLU, linear."""

    hidden: AnyLayer
    output: AnyLayer


class Network(NamedTuple):
    """Weights.

    Attributes:
      convs: convolutions, none for flat observations.
      linear: layers that follow them, each with a ReLU.
      value: V's stream, None without dueling.
      advantage: that of A, or of Q itself.
    """

    convs: ConvStack
    linear: tuple[Layer, ...]
    value: Stream | None
    advantage: Stream


def init(
    key: PRNGKeyArray, config: RainbowConfig, observation_shape: tuple[int, ...], num_actions: int
) -> Network:
    """Weights for observations of a shape; the torso's as PyTorch draws them by default.

    Raises:
      ValueError: if the torso needs images and the observations are none, or too small ones.
    """
    shapes, features = _torso_shapes(config.torso, observation_shape)
    torso_key, value_key, advantage_key = jax.random.split(key, 3)
    torso = initializers.layers("torch", torso_key, shapes) if shapes else []
    convs = CONVS[config.torso]
    atoms = config.num_atoms if config.distributional else 1

    def stream(key: PRNGKeyArray, outputs: int) -> Stream:
        sizes = (features, config.hidden_dim), (config.hidden_dim, outputs)
        if not config.noisy:
            return Stream(*initializers.layers("torch", key, sizes))
        keys = jax.random.split(key)
        return Stream(
            *(noisy.init(k, *size, config.noise) for k, size in zip(keys, sizes, strict=True))
        )

    return Network(
        convs=conv_stack.of_layers(convs, torso[: len(convs)]),
        linear=tuple(torso[len(convs) :]),
        value=stream(value_key, atoms) if config.dueling else None,
        advantage=stream(advantage_key, num_actions * atoms),
    )


def _torso_shapes(
    torso: Torso, observation_shape: tuple[int, ...]
) -> tuple[list[tuple[int, ...]], int]:
    """Shapes of the kernels, and the number of features."""
    convs = CONVS[torso]
    if convs and len(observation_shape) != 3:
        raise ValueError(
            f"the {torso} torso needs images, but observations have the shape "
            f'{observation_shape}: choose torso "mlp"'
        )
    shapes: list[tuple[int, ...]] = []
    features = math.prod(observation_shape)
    if convs:
        height, width, channels = observation_shape
        shapes = conv_stack.kernel_shapes(convs, channels)
        try:
            features = conv_stack.flat_dim(convs, height, width)
        except ValueError as error:
            raise ValueError(f'{error}: choose torso "minatar" or "mlp"') from None
    if torso in FULLY_CONNECTED:
        shapes.append((features, FULLY_CONNECTED[torso]))
        features = FULLY_CONNECTED[torso]
    return shapes, features


def draw_noise(key: PRNGKeyArray, network: Network) -> tuple[Noise, ...] | None:
    """Noise for all noisy layers, None where there are none."""
    layers = [layer for layer in _stream_layers(network) if isinstance(layer, NoisyLayer)]
    if not layers:
        return None
    keys = jax.random.split(key, len(layers))
    return tuple(noisy.draw(k, layer) for k, layer in zip(keys, layers, strict=True))


def _stream_layers(network: Network) -> tuple[AnyLayer, ...]:
    return (*(network.value or ()), *network.advantage)


def outputs(
    network: Network,
    observation: Shaped[Array, " batch *observation"],
    noise: tuple[Noise, ...] | None,
    config: RainbowConfig,
) -> Float[Array, "batch actions atoms"]:
    """Logits of the atoms of each action's return; without `distributional` one atom, Q itself.

    Args:
      network: weights.
      observation: bytes count as 0..255 and are scaled to [0, 1], MiniGrid's codes too; other
        numbers are taken as they are.
      noise: of `draw_noise`; None for mean weights.
      config: says what there is.
    """
    atoms = config.num_atoms if config.distributional else 1
    features = _features(network, observation)
    value_noise, advantage_noise = _split(noise, network)
    advantage = _stream(network.advantage, features, advantage_noise)
    advantage = advantage.reshape(features.shape[0], -1, atoms)
    if network.value is None:
        return advantage
    value = _stream(network.value, features, value_noise)[:, None]
    return value + advantage - jnp.mean(advantage, axis=1, keepdims=True)


def _split(noise, network: Network):
    if noise is None:
        return (None, None), (None, None)
    return (noise[:2] if network.value is not None else (None, None)), noise[-2:]


def _stream(stream: Stream, x, noise) -> Float[Array, "batch outputs"]:
    hidden = jax.nn.relu(_linear(stream.hidden, x, noise[0]))
    return _linear(stream.output, hidden, noise[1])


def _linear(layer: AnyLayer, x, noise: Noise | None):
    if isinstance(layer, NoisyLayer):
        return noisy.noisy_linear(layer, x, noise)
    return linear(layer, x)


def _features(network: Network, observation) -> Float[Array, "batch features"]:
    # MiniGrid's codes, too, although views then differ little at first: as they are, an untrained
    # network keeps to the same actions in spite of the noise (tried with one seed of two tasks).
    x = conv_stack.features(network.convs, conv_stack.as_float(observation))
    for layer in network.linear:
        x = jax.nn.relu(linear(layer, x))
    return x
