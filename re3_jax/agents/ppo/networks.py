"""PPO's actor and critic.

As in CleanRL, all weights are orthogonal and all biases 0: the gain is sqrt(2) for hidden layers,
0.01 for the actor's output and 1 for the critic's. Vectors enter an actor and a critic of two tanh
layers each, which share nothing. Large images pass through DQN's convolutions and a ReLU layer,
which a linear actor and critic share. Those of MinAtar and MiniGrid's views pass through shared
convolutions, and each of the two then has one tanh layer. With a GRU, all pass through a ReLU layer
and the GRU, and actor and critic are linear.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from re3_jax import initializers
from re3_jax.agents.ppo.config import PPOConfig
from re3_jax.agents.ppo.memory import Hidden, Past
from re3_jax.distributions import Categorical, Gaussian, Policy
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.initializers import RELU_GAIN, Layer
from re3_jax.networks import conv_stack, minigrid
from re3_jax.networks.conv_stack import Convs, ConvStack
from re3_jax.networks.gru import GRU, gru_step
from re3_jax.networks.minigrid import TrunkParams
from re3_jax.networks.mlp import MLP, kernel_shapes, linear, mlp

ACTOR_GAIN, CRITIC_GAIN = 0.01, 1.0

CONVS: tuple[Convs, ...] = (conv_stack.NATURE, conv_stack.MINATAR)
"""Convolutions for images: the first of them for which an image is large enough is used."""


class ActorCritic(NamedTuple):
    """Weights.

    Attributes:
      trunk: shared convolutions, MiniGrid's or others; a stack of none for vectors.
      body: shared layers after them.
      gru: what remembers, after these; None for an agent that does not.
      actor: logits of discrete actions or means of continuous ones.
      critic: the values, the task's first.
      log_std: of continuous actions, None for discrete ones.
    """

    trunk: TrunkParams | ConvStack
    body: MLP
    gru: GRU | None
    actor: MLP
    critic: MLP
    log_std: Float[Array, " dims"] | None


def init(key: PRNGKeyArray, config: PPOConfig, spec: EnvSpec) -> ActorCritic:
    """Weights for a task."""
    space, shape = spec.action_space, spec.observation_shape
    convs, trunk, features = _trunk_shapes(shape)
    width, shares = config.hidden_dim, config.recurrent or convs is conv_stack.NATURE
    inputs = width if shares else features
    hidden = [width] * (0 if shares else 1 if trunk else 2)
    shapes: dict[str, Sequence[tuple[int, ...]]] = {
        "trunk": trunk,
        "body": [(features, width)] if shares else [],
        # Update gate, reset gate and candidate, from the input and from the hidden state.
        "gru": [(width, 3 * width)] * 2 if config.recurrent else [],
        "actor": kernel_shapes(inputs, *hidden, space.num_outputs),
        "critic": kernel_shapes(inputs, *hidden, config.num_values),
    }
    every = [kernel for part in shapes.values() for kernel in part]
    made = iter(initializers.layers("orthogonal", key, every))
    layers = {name: [next(made) for _ in part] for name, part in shapes.items()}
    is_view = shape == minigrid.OBSERVATION_SHAPE
    return ActorCritic(
        trunk=tuple(layers["trunk"]) if is_view else conv_stack.of_layers(convs, layers["trunk"]),
        body=_scaled(layers["body"], RELU_GAIN) if shares else (),
        gru=_gru(*layers["gru"]) if layers["gru"] else None,
        actor=_scaled(layers["actor"], ACTOR_GAIN),
        critic=_scaled(layers["critic"], CRITIC_GAIN),
        log_std=None if isinstance(space, Discrete) else jnp.zeros(space.num_outputs),
    )


def _trunk_shapes(shape: tuple[int, ...]) -> tuple[Convs, list[tuple[int, ...]], int]:
    """Convolutions, the shapes of their kernels, and the number of features."""
    if shape == minigrid.OBSERVATION_SHAPE:
        return (), list(minigrid.KERNEL_SHAPES), minigrid.FEATURE_DIM
    if len(shape) == 3:
        height, width, channels = shape
        for convs in CONVS:
            if min(height, width) >= conv_stack.smallest_side(convs):
                kernels = conv_stack.kernel_shapes(convs, channels)
                return convs, kernels, conv_stack.flat_dim(convs, height, width)
    return (), [], math.prod(shape)


def _scaled(layers: list[Layer], output_gain: float) -> MLP:
    gains = [RELU_GAIN] * (len(layers) - 1) + [output_gain]
    pairs = zip(layers, gains, strict=True)
    return tuple(layer._replace(kernel=gain * layer.kernel) for layer, gain in pairs)


def _gru(into: Layer, recurrent: Layer) -> GRU:
    return GRU(into.kernel, recurrent.kernel, into.bias, recurrent.bias)


def policy_and_values(
    params: ActorCritic,
    observation: Shaped[Array, " batch *observation"],
    past: Past | None = None,
) -> tuple[Policy, Float[Array, "batch value"]]:
    """Outputs of both heads for each observation; the arguments are those of `features`."""
    seen = features(params, observation, past)
    return policy(params, seen), values(params, seen)


def policy(params: ActorCritic, features: Float[Array, "batch features"]) -> Policy:
    """The actor's head."""
    outputs = mlp(params.actor, features, jnp.tanh)
    return Categorical(outputs) if params.log_std is None else Gaussian(outputs, params.log_std)


def values(
    params: ActorCritic, features: Float[Array, "batch features"]
) -> Float[Array, "batch value"]:
    """The critic's head."""
    return mlp(params.critic, features, jnp.tanh)


def features(
    params: ActorCritic,
    observation: Shaped[Array, " batch *observation"],
    past: Past | None = None,
) -> Float[Array, "batch features"]:
    """Features of each observation, which both heads see; a GRU's are its hidden state afterwards.

    Args:
      params: the weights.
      observation: of a recurrent agent, sequences: the time, then the lane, runs along the batch.
      past: of these sequences.
    """
    x = _embedding(params, observation)
    gru = params.gru
    if gru is None or past is None:
        return x

    def step(hidden: Hidden, now: tuple[Array, Array]) -> tuple[Hidden, Hidden]:
        begins, x = now
        hidden = gru_step(gru, x, jnp.where(begins[:, None], 0.0, hidden))
        return hidden, hidden

    sequences = x.reshape(*past.begins.shape, -1)
    _, hidden = jax.lax.scan(step, past.hidden, (past.begins, sequences))
    return hidden.reshape(len(x), -1)


def features_after(
    params: ActorCritic,
    hidden: Float[Array, "batch hidden"] | None,
    observation: Shaped[Array, " batch *observation"],
) -> Float[Array, "batch features"]:
    """Features of each observation, after one step of the GRU from `hidden`.

    `hidden` is None for an agent without a GRU: its features depend on the observation alone.
    """
    x = _embedding(params, observation)
    return x if params.gru is None or hidden is None else gru_step(params.gru, x, hidden)


def _embedding(
    params: ActorCritic, observation: Shaped[Array, " batch *observation"]
) -> Float[Array, "batch features"]:
    """Features before any GRU; bytes of images are scaled to [0, 1], MiniGrid's codes are not."""
    if isinstance(params.trunk, ConvStack):
        x = conv_stack.features(params.trunk, conv_stack.as_float(observation))
    else:
        x = minigrid.trunk(params.trunk, observation)
    for layer in params.body:
        x = jax.nn.relu(linear(layer, x))
    return x
