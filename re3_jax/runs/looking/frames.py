"""Observations as pictures."""

import numpy as np
from jaxtyping import Shaped, UInt8

from re3_jax.envs.base import EnvSpec
from re3_jax.envs.device.minigrid import codes

PALETTE = np.array(
    [
        *([40, 40, 40], [213, 94, 0], [0, 114, 178], [0, 158, 115], [240, 228, 66]),
        *([204, 121, 167], [86, 180, 233], [230, 159, 0], [255, 255, 255], [150, 80, 40]),
        *([120, 200, 120], [180, 180, 180]),
    ],
    np.uint8,
)
"""Colours of the planes of an observation: no plane, the first, the second, and so on."""

MINIGRID = "minigrid:"
COLOURS = np.array(
    [[255, 0, 0], [0, 255, 0], [0, 0, 255], [112, 39, 195], [255, 255, 0], [100, 100, 100]],
    np.uint8,
)
"""Farama's colours, by their numbers."""

CELL = 8
"""Pixels of a cell of MiniGrid."""

Pictures = UInt8[np.ndarray, "picture height width 3"]


def pictures(observation: Shaped[np.ndarray, " picture *frame"], spec: EnvSpec) -> Pictures | None:
    """Frames as pictures; None for observations that are not images."""
    if spec.task.startswith(MINIGRID):
        return _of_minigrid(observation)
    if observation.ndim != 4:
        return None
    if observation.dtype == np.uint8 and spec.frame_shape[-1] in (1, 3):
        newest = observation[..., -spec.frame_shape[-1] :]
        return np.broadcast_to(newest, (*newest.shape[:3], 3))
    if observation.dtype == bool:
        top = np.argmax(observation[..., ::-1], axis=-1)
        plane = np.where(observation.any(-1), observation.shape[-1] - top, 0)
        return PALETTE[plane % len(PALETTE)]
    return None


def _of_minigrid(views: UInt8[np.ndarray, "picture column row channel"]) -> Pictures:
    """The agent's views, cell by cell; the agent is at the bottom and looks up."""
    # Farama's views lead with the column.
    kind, colour, state = np.moveaxis(views.swapaxes(1, 2), -1, 0).astype(int)
    flat = COLOURS[np.minimum(colour, len(COLOURS) - 1)].copy()
    flat[kind == codes.UNSEEN] = 60
    flat[kind == codes.EMPTY] = 0
    flat[kind == codes.LAVA & 0xFF] = [255, 128, 0]
    picture = flat.repeat(CELL, 1).repeat(CELL, 2)
    inside = np.zeros(picture.shape[1:3], bool)
    size = views.shape[1] * CELL
    middle = np.arange(size) % CELL
    inside[np.ix_((middle >= 2) & (middle < CELL - 2), (middle >= 2) & (middle < CELL - 2))] = True
    # Doors are frames; what can be carried does not fill its cell.
    is_open = ((kind == codes.DOOR) & (state == codes.OPEN)).repeat(CELL, 1).repeat(CELL, 2)
    picture[is_open & inside] = 0
    small = ((kind > codes.DOOR) & (kind <= codes.BOX)).repeat(CELL, 1).repeat(CELL, 2)
    picture[small & ~inside] = 0
    edge = middle == 0
    picture[:, edge] = np.maximum(picture[:, edge], 40)
    picture[:, :, edge] = np.maximum(picture[:, :, edge], 40)
    _draw_agent(picture)
    return picture


def _draw_agent(picture: Pictures) -> None:
    """A triangle that points up, in the middle cell of the last row."""
    bottom, left = picture.shape[1] - 1, picture.shape[2] // 2 - CELL // 2
    for row in range(CELL - 2):
        half = (CELL - 2 - row) // 2
        middle = left + CELL // 2
        picture[:, bottom - 1 - row, middle - half : middle + half] = [255, 0, 0]
