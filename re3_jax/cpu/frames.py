"""Stacks of colour frames, frame by frame on a CPU.

Reason: an image of several frames has the channels of all of them next to each other, and
jaxlib 0.10.2 puts such images together byte by byte on a CPU. Here each frame is cut, scaled and
convolved alone. The frames are concatenated in between, which XLA removes where the next
operation takes them apart again.

Remove when: `benchmarks.sac_update` is as fast with whole stacks.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, Shaped

from re3_jax import checks

COLOURS = 3

Images = Shaped[Array, "batch height width channels"]


def frames(x: Shaped[Array, "*axes channels"]) -> list[Shaped[Array, "*axes frame_channels"]]:
    """The colour frames of a stack; the whole stack if its channels are not those of colours."""
    channels = x.shape[-1]
    if channels % COLOURS:
        return [x]
    return [x[..., first : first + COLOURS] for first in range(0, channels, COLOURS)]


def map_frames(function: Callable[[Array], Array], x: Shaped[Array, "*axes channels"]) -> Array:
    """`function` of each frame, concatenated; its results have a last axis of channels."""
    return jnp.concatenate([function(frame) for frame in frames(x)], axis=-1)


def crop_frames(images: Images, offsets: Int[Array, "batch 2"], size: tuple[int, int]) -> Images:
    """Cuts a window of `size` (rows, columns) out of each image, its top-left pixel at `offsets`.

    Offsets must be from 0 to side - size.
    """
    batch, height, width, _ = images.shape
    # A loop of two parts: XLA would otherwise compute the cut pixel by pixel in what follows.
    part = checks.largest_divisor(batch, max(1, batch // 2))

    def of_frame(frame):
        channels = frame.shape[-1]
        window = size[0], size[1] * channels

        def cut(rows, offset):
            return lax.dynamic_slice(rows, (offset[0], offset[1] * channels), window)

        def of_part(images_and_offsets):
            return jax.vmap(cut)(*images_and_offsets)

        parts = frame.reshape(-1, part, height, width * channels), offsets.reshape(-1, part, 2)
        return lax.map(of_part, parts).reshape(batch, *size, channels)

    return map_frames(of_frame, images)
