"""A picture of frames beside the frames that each representation finds most similar."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

INCHES = 1.05
"""Width and height of a frame."""


def draw(
    parts: Mapping[str, UInt8[np.ndarray, "row place height width 3"]], rows: Sequence[str] = ()
) -> Figure:
    """Parts from left to right, each under its title, with the same number of rows.

    Args:
      parts: title -> frames of each row.
      rows: a name for each row; none by default.
    """
    widths = [float(images.shape[1]) for images in parts.values()]
    widths[0] += 0.25 * bool(rows)
    down = len(next(iter(parts.values())))
    size = INCHES * (sum(widths) + 0.3 * len(widths)), INCHES * down + 0.45
    figure = Figure(size, dpi=150, layout="constrained")
    (columns,) = figure.subfigures(1, len(parts), squeeze=False, width_ratios=widths, wspace=0.05)
    for column, (title, images) in zip(columns, parts.items(), strict=True):
        column.suptitle(title, fontsize=10)
        places = column.subplots(*images.shape[:2], squeeze=False)
        for axes, image in zip(places.flat, images.reshape(-1, *images.shape[2:]), strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        if column is columns[0]:
            for axes, name in zip(places[:, 0], rows, strict=False):
                axes.set_ylabel(name, fontsize=9)
    return figure
