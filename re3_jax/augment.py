"""Augmentation of image batches: random crop (RAD), random shift (DrQ), centre crop (acting).

All keep the dtype (uint8 stays uint8 until the network) and treat the channels of an image,
that is the frames of a stack, alike.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

Images = Shaped[Array, "batch height width channels"]


def crop_at(images: Images, offsets: Int[Array, "batch 2"], size: int) -> Images:
    """Cuts a square of `size` pixels out of each image, its corner at (row, column) offsets.

    Offsets must be from 0 to side - size.
    """

    def cut(image, offset):
        return jax.lax.dynamic_slice(image, (offset[0], offset[1], 0), (size, size, image.shape[2]))

    return jax.vmap(cut)(images, offsets)


def random_offsets(key: PRNGKeyArray, images: Images, size: int) -> Int[Array, "batch 2"]:
    """Row and column for each image, independent and uniform on 0..side - size inclusive.

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    batch, height, width, _ = images.shape
    check_crop(height, width, size)
    largest = jnp.array([height - size, width - size])
    return jax.random.randint(key, (batch, 2), 0, largest + 1)


def random_crop(key: PRNGKeyArray, images: Images, size: int) -> Images:
    """A random square of `size` pixels of each image, offsets of its own for each.

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    return crop_at(images, random_offsets(key, images, size), size)


def random_shift(key: PRNGKeyArray, images: Images, pad: int) -> Images:
    """Moves each image by -pad..pad pixels along both axes, repeating its border.

    The same as padding by `pad` pixels in replicate mode and cropping to the old size.
    """
    batch, height, width, _ = images.shape
    offsets = jax.random.randint(key, (batch, 2), -pad, pad + 1)
    rows = jnp.clip(jnp.arange(height) + offsets[:, :1], 0, height - 1)
    columns = jnp.clip(jnp.arange(width) + offsets[:, 1:], 0, width - 1)
    return jax.vmap(lambda image, row, column: image[row][:, column])(images, rows, columns)


def centre_crop(images: Images, size: int) -> Images:
    """The square of `size` pixels in the middle (the left and upper of two middles).

    Raises:
      ValueError: if the images are smaller than the crop.
    """
    _, height, width, _ = images.shape
    check_crop(height, width, size)
    row, column = (height - size) // 2, (width - size) // 2
    return images[:, row : row + size, column : column + size]


def check_crop(height: int, width: int, size: int) -> None:
    """Refuses a crop that is larger than the images.

    Raises:
      ValueError: naming both sizes.
    """
    if size > min(height, width):
        raise ValueError(
            f"a crop of {size}x{size} does not fit into images of {height}x{width}: "
            "lower crop_size, render larger images (image_size) or choose augmentation shift"
        )
