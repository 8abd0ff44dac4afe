"""Augmentation of image batches: random crop (RAD), random shift (DrQ), centre crop (acting).

All functions keep the dtype (uint8 stays uint8 until the network) and move all channels of an
image, and so all frames of a stack, by the same offset.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

Images = Shaped[Array, "batch height width channels"]


def crop_at(images: Images, offsets: Int[Array, "batch 2"], size: int) -> Images:
    """Cuts a square of `size` pixels out of each image; `offsets` are its top-left (row, column).

    Offsets must be from 0 to side - size.
    """

    def cut(image, offset):
        return jax.lax.dynamic_slice(image, (offset[0], offset[1], 0), (size, size, image.shape[2]))

    return jax.vmap(cut)(images, offsets)


def random_offsets(key: PRNGKeyArray, images: Images, size: int) -> Int[Array, "batch 2"]:
    """Draws a (row, column) per image, independent and uniform on 0..side - size inclusive.

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    batch, height, width, _ = images.shape
    check_crop(height, width, size)
    largest = jnp.array([height - size, width - size])
    return jax.random.randint(key, (batch, 2), 0, largest + 1)


def random_crop(key: PRNGKeyArray, images: Images, size: int) -> Images:
    """Crops a random square of `size` pixels from each image, with independent offsets.

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    return crop_at(images, random_offsets(key, images, size), size)


def random_shift(key: PRNGKeyArray, images: Images, pad: int) -> Images:
    """Shifts each image by a random -pad..pad pixels along each axis and repeats its border.

    Equals padding by `pad` pixels in replicate mode and a random crop to the old size.
    """
    batch, height, width, _ = images.shape
    offsets = jax.random.randint(key, (batch, 2), -pad, pad + 1)
    rows = jnp.clip(jnp.arange(height) + offsets[:, :1], 0, height - 1)
    columns = jnp.clip(jnp.arange(width) + offsets[:, 1:], 0, width - 1)
    return jax.vmap(lambda image, row, column: image[row][:, column])(images, rows, columns)


def centre_crop(images: Images, size: int) -> Images:
    """Crops the central square of `size` pixels, rounded towards the top left.

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    _, height, width, _ = images.shape
    check_crop(height, width, size)
    row, column = (height - size) // 2, (width - size) // 2
    return images[:, row : row + size, column : column + size]


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
