"""A curve with its band as braille characters, for a terminal."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from rich.text import Text

DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot in a character of Unicode's braille block, [row, column]."""

BLANK = 0x2800
LABEL = 9
"""Characters of a number beside the axis."""


class Line(NamedTuple):
    """A curve and the edges of its band, NaN without one; all [point], at least one point."""

    x: Float[np.ndarray, " point"]
    y: Float[np.ndarray, " point"]
    low: Float[np.ndarray, " point"]
    high: Float[np.ndarray, " point"]


def chart(line: Line, width: int, height: int, end: float) -> Text:
    """Draws a line in so many characters, the axis included; x goes from 0 to `end`.

    The axis spans the line, not the band, which few seeds make wide. A width that is too small gets
    one character of the line.
    """
    least, most = float(np.min(line.y)), float(np.max(line.y))
    if most == least:
        least, most = least - 0.5, most + 0.5
    columns, rows = 2 * max(1, width - LABEL - 1), 4 * height
    x = np.linspace(0, end, columns)
    drawn = (x >= line.x[0]) & (x <= line.x[-1])

    def row(values: Float[np.ndarray, " point"]) -> Float[np.ndarray, " column"]:
        share = (np.interp(x, line.x, values) - least) / (most - least)
        return (1 - share) * (rows - 1)

    at = np.arange(rows)[:, None]
    middle = np.rint(row(line.y))
    # Up to the next column's row, so that a steep line has no gaps.
    following = np.append(middle[1:], middle[-1])
    curve = (at >= np.minimum(middle, following)) & (at <= np.maximum(middle, following)) & drawn
    band = (at >= row(line.high)) & (at <= row(line.low)) & drawn
    # Every second dot: the line stands out.
    band &= (at + np.arange(columns)) % 2 == 0
    return _written(curve, band, least, most)


def _written(
    curve: Bool[np.ndarray, "row column"],
    band: Bool[np.ndarray, "row column"],
    least: float,
    most: float,
) -> Text:
    text = Text()
    codes, has_curve = _codes(curve | band), _codes(curve) > BLANK
    for i, (line, bright) in enumerate(zip(codes, has_curve, strict=True)):
        number = f"{most:.4g}" if i == 0 else f"{least:.4g}" if i == len(codes) - 1 else ""
        text.append(f"{number:>{LABEL}}│", style="dim")
        for code, is_curve in zip(line, bright, strict=True):
            text.append(chr(code), style="bold cyan" if is_curve else "dim cyan")
        text.append("\n")
    text.rstrip()
    return text


def _codes(dots: Bool[np.ndarray, "row column"]) -> np.ndarray:
    """Code points [line, character]."""
    cells = dots.reshape(dots.shape[0] // 4, 4, dots.shape[1] // 2, 2)
    return BLANK + np.einsum("icjd,cd->ij", cells.astype(int), DOTS)
