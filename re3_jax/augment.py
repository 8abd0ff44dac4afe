"""Augmentation of image batches: random crop (RAD), random shift (DrQ), centre crop (acting).

All functions keep the dtype (uint8 stays uint8 until the network) and move all channels of an
image, and so all frames of a stack, by the same offset.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from re3_jax.cpu import flat_random
from re3_jax.cpu.by_platform import by_platform
from re3_jax.cpu.frames import crop_frames

Images = Shaped[Array, "batch height width channels"]


@partial(jax.jit, static_argnames="size", inline=True)
def crop_at(images: Images, offsets: Int[Array, "batch 2"], size: tuple[int, int]) -> Images:
    """Cuts a window of `size` (rows, columns) out of each image, its top-left pixel at `offsets`.

    Offsets must be from 0 to side - size.
    """

    def elsewhere(images, offsets):
        def cut(image, offset):
            start = *offset, jnp.zeros_like(offset[0])
            return lax.dynamic_slice(image, start, (*size, image.shape[2]))

        return jax.vmap(cut)(images, offsets)

    if jnp.issubdtype(images.dtype, jnp.floating):
        # Of real numbers a gradient may be wanted, which a choice by platform does not have.
        return elsewhere(images, offsets)
    on_cpu, on_tpu = partial(crop_frames, size=size), partial(crop_by_halves, size=size)
    return by_platform(on_cpu, elsewhere, on_tpu=on_tpu)(images, offsets)


def crop_by_halves(images: Images, offsets: Int[Array, "batch 2"], size: tuple[int, int]) -> Images:
    """`crop_at` without a lookup: each pass keeps one of two windows of each image.

    A TPU lays the batch along its vector lanes, so a slice of one image reads them all, and slices
    at the offsets of 512 images read the batch 512 times, one after the other. A pass over rows or
    columns halves the number of offsets that are left.
    """
    for axis in (1, 2):
        left = offsets[:, axis - 1]
        most = images.shape[axis] - size[axis - 1]
        while most > 0:
            step = (most + 1) // 2
            length = images.shape[axis] - step
            first, second = (
                lax.slice_in_dim(images, start, start + length, axis=axis) for start in (0, step)
            )
            moves = left >= step
            images = jnp.where(moves[:, None, None, None], second, first)
            left = left - step * moves
            most -= step
    return images


def random_offsets(key: PRNGKeyArray, images: Images, size: int) -> Int[Array, "batch 2"]:
    """Draws a (row, column) per image, independent and uniform on 0..side - size inclusive.

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    batch, height, width, _ = images.shape
    check_crop(height, width, size)
    largest = jnp.array([height - size, width - size])
    return flat_random.randint(key, (batch, 2), 0, largest + 1)


def random_crop(key: PRNGKeyArray, images: Images, size: int) -> Images:
    """Crops a random square of `size` pixels from each image, with independent offsets.

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    return crop_at(images, random_offsets(key, images, size), (size, size))


def random_shift(key: PRNGKeyArray, images: Images, pad: int) -> Images:
    """Shifts each image by a random -pad..pad pixels along each axis and repeats its border.

    Equals padding by `pad` pixels in replicate mode and a random crop to the old size.

    Raises:
      ValueError: if a shift could leave nothing of an image.
    """
    _, height, width, _ = images.shape
    check_shift(height, width, pad)
    offsets = flat_random.randint(key, (images.shape[0], 2), 0, 2 * pad + 1)
    wider = jnp.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)), mode="edge")
    return crop_at(wider, offsets, (height, width))


def centre_crop(images: Images, size: int) -> Images:
    """Crops the central square of `size` pixels, rounded towards the top left.

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    _, height, width, _ = images.shape
    check_crop(height, width, size)
    row, column = (height - size) // 2, (width - size) // 2
    return images[:, row : row + size, column : column + size]


def check_shift(height: int, width: int, pad: int) -> None:
    """Rejects shifts that can leave nothing of an image.

    Raises:
      ValueError: if they can; the message names both sizes.
    """
    if pad >= min(height, width):
        raise ValueError(
            f"a shift of up to {pad} pixels can leave nothing of images of {height}x{width}: lower "
            "shift_pad"
        )


def check_crop(height: int, width: int, size: int) -> None:
    """Rejects a crop that is larger than the images.

    Raises:
      ValueError: if it is; the message names both sizes.
    """
    if size > min(height, width):
        raise ValueError(
            f"a crop of {size}x{size} does not fit into images of {height}x{width}: "
            "lower crop_size, render larger images (image_size) or choose augmentation shift"
        )
