"""ATC's encoder for DeepMind Control: four convolutions and a linear head (Stooke et al. 2020).

rlpyt (`rlpyt/ul`, configuration `dmc_atc`) trains this network on stacks of three 84x84 frames:
3x3 convolutions without padding, strides 2, 2, 2, 1, a ReLU after each, and one linear layer that
compresses the features of 7x7 positions into the code that the contrastive loss compares.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from re3_jax.initializers import Layer
from re3_jax.networks import conv_stack
from re3_jax.networks.conv_stack import ConvStack
from re3_jax.networks.mlp import linear

IMAGE_SIZE = 84
STRIDES = (2, 2, 2, 1)
POSITIONS = 7
PLACES = ("algo_state_dict.encoder.", "encoder.", "agent_state_dict.conv.", "conv.", "")
"""Prefixes of the encoder in rlpyt's snapshots of pre-training and of agents, or parts of them."""

Output = Literal["code", "features"]
"""The output that serves as latent: the head's code, or the last convolution's features."""


class ATCEncoder(NamedTuple):
    """The parameters; without a head, the encoder returns the features.

    The head's input runs over rows, columns and filters.
    """

    convs: ConvStack
    head: Layer | None


def from_tensors(tensors: Mapping[str, np.ndarray], output: Output = "code") -> ATCEncoder:
    """The parameters from a snapshot or state dictionary of rlpyt, as float32 NumPy arrays.

    Ignores the target encoder, the contrastive loss's own weights and the optimiser.

    Raises:
      ValueError: if a tensor is missing, of another shape, or not finite; the message names it.
    """
    first = "conv.conv.0.weight"
    prefix = next((place for place in PLACES if place + first in tensors), None)
    if prefix is None:
        raise ValueError(f"it has no tensor {first}, alone or in algo_state_dict.encoder")

    def tensor(name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        full = f"{prefix}{name}"
        if full not in tensors:
            raise ValueError(f"it has no tensor {full}")
        found = tensors[full].shape
        fits = [wanted in (None, size) for wanted, size in zip(shape, found, strict=False)]
        if len(found) != len(shape) or not all(fits):
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise ValueError(f"its {full} is of shape {found}, not ({wanted})")
        array = tensors[full].astype(np.float32)
        if not np.isfinite(array).all():
            raise ValueError(f"its {full} has values that are not finite")
        return array

    convs, channels = [], None
    for index in range(len(STRIDES)):
        # rlpyt numbers the ReLUs between the convolutions too.
        weight = tensor(f"conv.conv.{2 * index}.weight", (None, channels, 3, 3))
        channels = weight.shape[0]
        bias = tensor(f"conv.conv.{2 * index}.bias", (channels,))
        convs.append(_layer(weight.transpose(2, 3, 1, 0), bias))
    if output == "features":
        return ATCEncoder(ConvStack(tuple(convs), STRIDES), None)
    if f"{prefix}head.model.0.weight" not in tensors:
        raise ValueError('it has no head that would give a code: set the output to "features"')
    if f"{prefix}head.model.2.weight" in tensors:
        raise ValueError('its head has hidden layers: set the output to "features"')
    weight = tensor("head.model.0.weight", (None, convs[-1].bias.size * POSITIONS**2))
    code = weight.shape[0]
    # PyTorch flattens with the filter as the slowest axis.
    by_position = weight.reshape(code, -1, POSITIONS, POSITIONS).transpose(2, 3, 1, 0)
    head = _layer(by_position.reshape(-1, code), tensor("head.model.0.bias", (code,)))
    return ATCEncoder(ConvStack(tuple(convs), STRIDES), head)


def _layer(kernel: Any, bias: Any) -> Layer:
    """A layer of NumPy arrays: what a file holds stays on the host until it is used."""
    arrays: list[Any] = [np.ascontiguousarray(kernel), bias]
    return Layer(*arrays)


def encode(
    params: ATCEncoder, images: Num[Array, "batch 84 84 channels"]
) -> Float[Array, "batch latent"]:
    """Codes of images with values 0..255, float32; without a head, their features.

    The axis of features runs over rows, columns and filters, the filter fastest.
    """
    params = jax.tree.map(jnp.asarray, params)
    x = conv_stack.features(params.convs, images.astype(jnp.float32) / 255)
    return x if params.head is None else linear(params.head, x)


def latent_dim(params: ATCEncoder) -> int:
    """Length of a row of `encode`."""
    if params.head is None:
        return POSITIONS**2 * params.convs.layers[-1].bias.size
    return params.head.bias.size
