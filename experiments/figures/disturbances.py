"""Frames with Gaussian noise, and with changed colours of the background.

The paper (Section 4.1, "Robustness to noise and perturbations via ensembles") names "simple
Gaussian noise" and a background whose colour "changes randomly", without their strengths. Each
exists twice here, weak and strong.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, UInt8

Images = UInt8[np.ndarray, "frame height width 3"]

TINT = 0.5
"""`tinted` scales a channel by at most 1 + TINT and at least 1 - TINT."""


def noisy(images: Images, random: np.random.Generator, std: float) -> Images:
    """Adds independent noise to each number, of this standard deviation in units of 1/255."""
    return _bytes(images + random.normal(0, std, images.shape))


def tinted(images: Images, random: np.random.Generator) -> Images:
    """Scales each channel of each frame's background by a number of its own."""
    factors = random.uniform(1 - TINT, 1 + TINT, (len(images), 1, 1, 3))
    return _bytes(np.where(background(images)[..., None], images * factors, images))


def recoloured(images: Images, random: np.random.Generator) -> Images:
    """Gives each frame's background a colour of its own; brighter pixels stay brighter."""
    behind = background(images)
    light = images.max(axis=-1)
    brightest = np.where(behind, light, 0).max(axis=(1, 2), keepdims=True)
    colours = random.uniform(0, 255, (len(images), 1, 1, 3))
    painted = (light / np.maximum(brightest, 1))[..., None] * colours
    return _bytes(np.where(behind[..., None], painted, images))


def background(images: Images) -> Bool[np.ndarray, "frame height width"]:
    """Where the background is: dm_control paints sky and floor blue, and bodies brown."""
    return images[..., 2] >= images[..., 0]


def background_colours(clean: Images, images: Images) -> Float[np.ndarray, "frame 3"]:
    """Mean colour of each frame's background, which is where it is in the clean frames."""
    behind = background(clean)[..., None]
    return np.sum(images, axis=(1, 2), where=behind) / np.sum(behind, axis=(1, 2))


def _bytes(images: np.ndarray) -> Images:
    return np.clip(np.rint(images), 0, 255).astype(np.uint8)


CONDITIONS: dict[str, Callable[[Images, np.random.Generator], Images]] = {
    "clean": lambda images, random: images,
    "noise 10": lambda images, random: noisy(images, random, 10),
    "noise 25": lambda images, random: noisy(images, random, 25),
    "tinted": tinted,
    "recoloured": recoloured,
}
"""Name -> frames in that condition. The number is the noise's standard deviation of 255."""
