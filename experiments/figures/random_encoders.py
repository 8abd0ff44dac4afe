"""Latents of frames under RE3's random encoder, as the released code has it, and its variants."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray, UInt8

from re3_jax import compilation, initializers, random_encoder
from re3_jax.envs.host import dmc
from re3_jax.envs.host.config import DMCConfig
from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.networks import conv_stack
from re3_jax.networks.conv_stack import Conv
from re3_jax.random_encoder import PixelEncoder
from re3_jax.runs.presets import dmc as presets
from re3_jax.runs.presets import tables

ENCODED_AT_ONCE = 100

Draw = Callable[[PRNGKeyArray, int], PixelEncoder]
"""(key, height and width of a frame) -> parameters."""

Latents = Float[np.ndarray, "frame latent"]


def released(**changes: Any) -> Draw:
    """The encoder of the preset `released`, with other values of these fields of `RE3Config`."""
    config = tables.run(presets.RELEASED_RE3, tables.options("re3", **changes)).re3

    def draw(key: PRNGKeyArray, size: int) -> PixelEncoder:
        spec = dmc.spec("hopper_hop", DMCConfig(image_size=size, frame_stack=1))
        return encoder_from(config).init(key, spec)

    return draw


def of_depth(depth: int) -> Draw:
    """The released encoder with so many convolutions: the first of stride 2, as ever."""
    config = tables.run(presets.RELEASED_RE3).re3
    filters = config.num_filters
    convs = [Conv(filters, 3, 2), *[Conv(filters, 3, 1)] * (depth - 1)]

    def draw(key: PRNGKeyArray, size: int) -> PixelEncoder:
        shapes = conv_stack.kernel_shapes(convs, channels=3)
        output = conv_stack.flat_dim(convs, size, size), config.latent_dim
        *layers, last = initializers.layers(config.encoder_init, key, [*shapes, output])
        return PixelEncoder(conv_stack.of_layers(convs, layers), last)

    return draw


def latents(params: PixelEncoder, images: UInt8[np.ndarray, "frame height width 3"]) -> Latents:
    """Latents of all images under one encoder, a part at a time."""
    return in_parts(partial(_compiled(), params), images)


def in_parts(
    encode: Callable[..., Any], images: UInt8[np.ndarray, "frame height width 3"]
) -> Latents:
    """What `encode` makes of all images, of so many at a time that memory stays small."""
    parts = range(0, len(images), ENCODED_AT_ONCE)
    return np.concatenate([encode(images[at : at + ENCODED_AT_ONCE]) for at in parts])


def members(ensemble: PixelEncoder) -> Iterator[PixelEncoder]:
    """The encoders of an ensemble, one by one: a CPU runs their convolutions faster so."""
    for member in range(len(ensemble.output.bias)):
        yield jax.tree.map(lambda leaf, member=member: leaf[member], ensemble)


@cache
def _compiled() -> jax.stages.Wrapped:
    return compilation.jit(random_encoder.encode)
