"""The random encoder f_theta: drawn once, never trained (paper, Section 3.2).

A MiniGrid view goes through the agent's own convolution stack with weights of its own, its
integer codes unscaled, and ends in 64 numbers after the last ReLU (paper, Appendix "Details on
MiniGrid Experiments"). Any other observation that is not an image is flattened and goes through
linear, ReLU, linear; the paper has no such task, so width and depth are ours. Observations
are not scaled: coordinates of larger range weigh more in the distance.

Several encoders (paper, Section 4.1, "Robustness to noise and perturbations via ensembles") are
the same parameters with a leading member axis.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray

from re3_jax import initializers
from re3_jax.envs.base import EnvSpec
from re3_jax.networks import minigrid

HIDDEN_DIM = 256


class LinearLayer(NamedTuple):
    """Parameters of one linear layer."""

    kernel: Float[Array, "in out"]
    bias: Float[Array, " out"]


class VectorEncoder(NamedTuple):
    """Parameters of the encoder of flat observations."""

    hidden: LinearLayer
    output: LinearLayer


EncoderParams = minigrid.TrunkParams | VectorEncoder


def init(
    key: PRNGKeyArray,
    spec: EnvSpec,
    *,
    init: initializers.Scheme = "torch",
    latent_dim: int = 64,
    ensemble_size: int = 1,
) -> EncoderParams:
    """Draws theta.

    Args:
      key: typed PRNG key.
      spec: the task; only shape and dtype of its observations matter.
      init: how weights and biases are drawn (see `initializers`).
      latent_dim: length of the latent of a flat observation; a MiniGrid view always gives 64.
      ensemble_size: number of independent encoders; above 1 every leaf has that leading axis.

    Raises:
      ValueError: for images other than MiniGrid's views, or an unknown initialisation.
    """
    shapes = _layer_shapes(spec, latent_dim)

    def draw(member_key: PRNGKeyArray) -> EncoderParams:
        layers = initializers.layers(init, member_key, shapes)
        if is_minigrid_view(spec):
            first, second, third = (minigrid.ConvLayer(*layer) for layer in layers)
            return first, second, third
        return VectorEncoder(*(LinearLayer(*layer) for layer in layers))

    if ensemble_size == 1:
        return draw(key)
    return jax.vmap(draw)(jax.random.split(key, ensemble_size))


def encode(
    params: EncoderParams, observation: Num[Array, " batch *observation"]
) -> Float[Array, "batch latent"] | Float[Array, "member batch latent"]:
    """Computes y = f_theta(o), float32 at full matmul precision.

    An ensemble adds a leading member axis. Equal observations in one batch, or at the same
    place of batches of the same size, have equal latents.
    """
    is_ensemble = params[0].bias.ndim == 2
    encode_all = jax.vmap(_encode_one, in_axes=(0, None)) if is_ensemble else _encode_one
    with jax.default_matmul_precision("highest"):
        return encode_all(params, observation)


def latent_dim_of(spec: EnvSpec, latent_dim: int) -> int:
    """Length of the latent that `encode` returns for the task, given the wished length."""
    return minigrid.FEATURE_DIM if is_minigrid_view(spec) else latent_dim


def is_minigrid_view(spec: EnvSpec) -> bool:
    """Whether observations are MiniGrid's 7x7x3 integer codes."""
    return spec.observation_shape == minigrid.OBSERVATION_SHAPE and _is_bytes(spec)


def _is_bytes(spec: EnvSpec) -> bool:
    return np.dtype(spec.observation_dtype) == np.uint8


def _layer_shapes(spec: EnvSpec, latent_dim: int) -> tuple[tuple[int, ...], ...]:
    if is_minigrid_view(spec):
        return minigrid.KERNEL_SHAPES
    if _is_bytes(spec) and len(spec.observation_shape) == 3:
        raise ValueError(
            f"there is no random encoder for images of shape {spec.observation_shape}: RE3 takes "
            "MiniGrid's 7x7x3 views and flat observations"
        )
    return ((math.prod(spec.observation_shape), HIDDEN_DIM), (HIDDEN_DIM, latent_dim))


def _encode_one(
    params: EncoderParams, observation: Num[Array, " batch *observation"]
) -> Float[Array, "batch latent"]:
    if isinstance(params, VectorEncoder):
        x = observation.reshape(observation.shape[0], -1).astype(jnp.float32)
        x = jax.nn.relu(x @ params.hidden.kernel + params.hidden.bias)
        return x @ params.output.kernel + params.output.bias
    return minigrid.trunk(params, observation)
