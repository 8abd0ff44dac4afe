"""Which frames a distance finds similar, and how far it agrees with that of the true states.

Neighbours come from other episodes than the frame itself, so that none is near merely because it
is the next frame.
"""

import numpy as np
from jaxtyping import Float, Int, UInt8

Distances = Float[np.ndarray, "frame frame"]

Ordered = Int[np.ndarray, "frame other"]
"""For each frame the frames of other episodes, the nearest first."""


def nearest(distances: Distances, episodes: Int[np.ndarray, " frame"]) -> Ordered:
    """The frames of other episodes in the order of their distance, as many as every frame has."""
    apart = np.where(episodes[:, None] == episodes, np.inf, distances)
    others = int(np.isfinite(apart).sum(axis=1).min())
    return np.argsort(apart, axis=1, kind="stable")[:, :others]


def recall(found: Ordered, true: Ordered, k: int) -> float:
    """Mean share of a frame's k nearest in `true` that are among its k nearest in `found`.

    By chance it is `chance_recall`.
    """
    return float((found[:, :k, None] == true[:, None, :k]).any(axis=-1).mean())


def chance_recall(true: Ordered, k: int) -> float:
    """The expected `recall` of an order that is independent of the true one."""
    return k / true.shape[1]


def share_nearer(found: Ordered, true: Ordered, k: int) -> float:
    """Mean share of frames that are nearer in `true` than the k nearest in `found` are.

    0 if both agree on the nearest frame, 0.5 by chance.
    """
    frames, others = true.shape
    ranks = np.full((frames, frames), others)
    np.put_along_axis(ranks, true, np.arange(others)[None], axis=1)
    return float(np.take_along_axis(ranks, found[:, :k], axis=1).mean() / others)


def of_pixels(images: UInt8[np.ndarray, "frame height width 3"]) -> Distances:
    """Euclidean distances between images, exact up to the square root."""
    # The numbers are integers below 2^53: as float64 their products and sums do not round.
    flat = images.reshape(len(images), -1).astype(np.float64)
    products = flat @ flat.T
    squares = np.diagonal(products)
    return np.sqrt(squares[:, None] + squares - 2 * products)
