"""Crops and shifts: every result is an exact window, and every window is equally likely."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from scipy.stats import chisquare

from re3_jax import augment

SIGNIFICANCE = 1e-4
"""Keys are fixed, so a test that passes once always passes."""


def random_images(seed, batch, height, width, channels=9):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (batch, height, width, channels), dtype=np.uint8)


def place_of(image, windows):
    """Row and column of the one window that equals `image`."""
    found = np.argwhere((windows == image).all(axis=(2, 3, 4)))
    assert len(found) == 1
    return found[0]


def windows_of(image, height, width):
    """All windows of an image: [rows, columns, height, width, channels]."""
    return sliding_window_view(image, (height, width), (0, 1)).transpose(0, 1, 3, 4, 2)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), size=st.sampled_from([6, 9]), sides=st.sampled_from([0, 1]))
def test_a_crop_is_a_slice_of_its_own_image(seed, size, sides):
    height, width = ((9, 12), (11, 9))[sides]
    images = random_images(seed, 5, height, width)
    crops = np.asarray(augment.random_crop(jax.random.key(seed), images, size))
    assert crops.dtype == np.uint8 and crops.shape == (5, size, size, 9)
    for image, crop in zip(images, crops, strict=True):
        place_of(crop, windows_of(image, size, size))


@pytest.mark.parametrize("platform", ["cpu", "tpu", "default"])
@pytest.mark.parametrize(("batch", "channels"), [(6, 9), (5, 4), (1, 3)])
def test_each_backend_cuts_at_the_offsets_also_in_vmap(batch, channels, platform, monkeypatch):
    monkeypatch.setattr(
        jax.lax, "platform_dependent", lambda *arguments, **ways: ways[platform](*arguments)
    )
    images = np.stack([random_images(seed, batch, 9, 11, channels) for seed in (1, 2)])
    offsets = np.random.default_rng(3).integers(0, (4, 6), (2, batch, 2))
    crops = jax.vmap(partial(augment.crop_at, size=(6, 6)))(images, jnp.asarray(offsets))
    for seed, index in np.ndindex(2, batch):
        row, column = offsets[seed, index]
        expected = images[seed, index, row : row + 6, column : column + 6]
        np.testing.assert_array_equal(crops[seed, index], expected)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), pad=st.sampled_from([1, 4]))
def test_a_shift_is_a_crop_of_the_image_padded_by_its_border(seed, pad):
    images = random_images(seed, 5, 8, 10)
    shifted = np.asarray(augment.random_shift(jax.random.key(seed), images, pad))
    assert shifted.dtype == np.uint8
    for image, after in zip(images, shifted, strict=True):
        padded = np.pad(image, [(pad, pad), (pad, pad), (0, 0)], mode="edge")
        place_of(after, windows_of(padded, 8, 10))


def coordinates(batch, side):
    """Images whose two channels hold the row and the column of each pixel."""
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1)
    return jnp.broadcast_to(jnp.asarray(grid, jnp.uint8), (batch, side, side, 2))


@pytest.mark.parametrize(
    ("augmented", "side", "num_places"),
    [
        (lambda key, images: augment.random_crop(key, images, 4), 20, 17),
        (lambda key, images: augment.random_shift(key, images, 4), 12, 9),
    ],
    ids=["crop", "shift"],
)
def test_all_places_are_equally_likely_and_axes_independent(augmented, side, num_places):
    batch = 20_000
    after = jax.jit(augmented)(jax.random.key(0), coordinates(batch, side))
    # The middle pixel of a result never comes from the repeated border.
    middle = after.shape[1] // 2
    places = np.asarray(after[:, middle, middle], np.int64)
    places -= places.min(axis=0)
    counts = np.zeros((num_places, num_places))
    np.add.at(counts, tuple(places.T), 1)
    assert chisquare(counts.ravel()).pvalue > SIGNIFICANCE


def test_the_centre_crop_is_the_middle():
    images = random_images(0, 2, 100, 100)
    np.testing.assert_array_equal(augment.centre_crop(images, 84), images[:, 8:92, 8:92])
    np.testing.assert_array_equal(augment.centre_crop(images, 100), images)


@pytest.mark.parametrize("height", [83, 100])
def test_a_crop_larger_than_the_image_is_refused(height):
    images = jnp.zeros((1, height, 183 - height, 3), jnp.uint8)
    for crop in (augment.centre_crop, lambda *a: augment.random_crop(jax.random.key(0), *a)):
        with pytest.raises(ValueError, match="crop_size.*image_size.*shift"):
            crop(images, 84)


def test_crops_of_real_numbers_have_a_gradient():
    """Each pixel that is kept has a gradient of 1."""
    images = jnp.asarray(np.random.default_rng(0).normal(size=(3, 6, 5, 2)), jnp.float32)
    offsets = jnp.array([[0, 1], [2, 0], [1, 1]])
    gradient = jax.jit(jax.grad(lambda x: augment.crop_at(x, offsets, (4, 4)).sum()))(images)
    expected = np.zeros(images.shape)
    for image, (row, column) in enumerate(np.asarray(offsets)):
        expected[image, row : row + 4, column : column + 4] = 1
    np.testing.assert_array_equal(gradient, expected)
