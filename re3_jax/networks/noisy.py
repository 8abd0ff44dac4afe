"""Linear layers with factorised Gaussian noise (Fortunato et al., 2018)."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from re3_jax.cpu import flat_random


class NoisyLayer(NamedTuple):
    """Means and noise scales of one linear layer."""

    kernel: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]
    kernel_sigma: Float[Array, "inputs outputs"]
    bias_sigma: Float[Array, " outputs"]


class Noise(NamedTuple):
    """f(x) = sign(x) sqrt(|x|) of standard normal numbers, one for each input and output."""

    inputs: Float[Array, " inputs"]
    outputs: Float[Array, " outputs"]


def init(key: PRNGKeyArray, inputs: int, outputs: int, sigma_0: float) -> NoisyLayer:
    """Draws means from U(-b, b), b = 1 / sqrt(inputs), and sets the scales of the noise.

    The scale is sigma_0 / sqrt(inputs) for the kernel, and sigma_0 / sqrt(outputs) for the bias, as
    in Kaixhin/Rainbow; the paper has inputs for both.
    """
    drawn = flat_random.uniform(key, (inputs + 1, outputs), jnp.float32, -1.0, 1.0)
    drawn = drawn / math.sqrt(inputs)
    return NoisyLayer(
        kernel=drawn[:inputs],
        bias=drawn[inputs],
        kernel_sigma=jnp.full((inputs, outputs), sigma_0 / math.sqrt(inputs), jnp.float32),
        bias_sigma=jnp.full(outputs, sigma_0 / math.sqrt(outputs), jnp.float32),
    )


def draw(key: PRNGKeyArray, layer: NoisyLayer) -> Noise:
    """Noise for one layer, the same for a whole batch."""
    inputs, outputs = layer.kernel.shape
    drawn = jax.random.normal(key, (inputs + outputs,))
    # A quotient, because XLA computes it once. With a sign, or with x / sqrt(x), which XLA turns
    # into a factor 1 / sqrt(x), it would compute the normal number again for every weight.
    factor = drawn / jnp.maximum(jnp.sqrt(jnp.abs(drawn)), jnp.finfo(jnp.float32).tiny)
    return Noise(factor[:inputs], factor[inputs:])


def noisy_linear(
    layer: NoisyLayer, x: Float[Array, "batch inputs"], noise: Noise | None
) -> Float[Array, "batch outputs"]:
    """(W + sigma_W * e_out e_in^T) x + b + sigma_b * e_out; without noise, the means W and b."""
    if noise is None:
        return x @ layer.kernel + layer.bias
    kernel = layer.kernel + layer.kernel_sigma * noise.inputs[:, None] * noise.outputs
    return x @ kernel + layer.bias + layer.bias_sigma * noise.outputs
