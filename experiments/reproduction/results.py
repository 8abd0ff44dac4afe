"""The committed results that the page is made of (io)."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from re3_jax.plural import number_of
from re3_jax.runs import curves, statistics
from re3_jax.runs.curves import Curve

Row = dict[str, str]


class Interval(NamedTuple):
    """A value and the bounds of its 95% interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of_mean(cls, values: Float[np.ndarray, " seed"]) -> "Interval":
        """Student's t interval of the mean over seeds."""
        return cls(*map(float, statistics.mean_interval(values)))

    def __str__(self) -> str:
        """Two decimals for returns of MiniGrid, three for small ones, none up to 1,000."""
        digits = 3 if 0 < abs(self.value) < 0.1 else 2 if abs(self.value) < 20 else 0
        # Adding 0 takes the sign from -0.
        value, low, high = (f"{round(x, digits) + 0.0:.{digits}f}" for x in self)
        return f"{value} ({low} to {high})"


class Results:
    """Files below the root of the repository; `read` holds the names of those that were found."""

    def __init__(self, root: Path):
        """Keeps `root`; a file is read when it is asked for."""
        self.root = root
        self.read: set[str] = set()

    def table(self, name: str) -> list[Row]:
        """The rows of a CSV; none if there is no such file."""
        if not self.exists(name):
            return []
        with (self.root / name).open(newline="") as lines:
            return list(csv.DictReader(lines))

    def row(self, name: str, **cells: str) -> Row | None:
        """The first row of a CSV with these cells; None if there is none."""
        for row in self.table(name):
            if all(row.get(column) == cell for column, cell in cells.items()):
                return row
        return None

    def json(self, name: str) -> Any:
        """The content of a JSON file; None if there is no such file."""
        return json.loads((self.root / name).read_text()) if self.exists(name) else None

    def curve(self, name: str, frames_before: int = 0) -> Curve | None:
        """The evaluations in a copy of a run's eval.csv; None if there is no such file.

        Args:
          name: of the copy.
          frames_before: env frames of pre-training, which the copy does not count.
        """
        if not self.exists(name):
            return None
        curve = curves.common("", curves.read(self.root / name, "return_mean").values())
        return curve._replace(env_frames=curve.env_frames + frames_before)

    def exists(self, name: str) -> bool:
        """Whether there is such a file; notes that it was read."""
        found = (self.root / name).is_file()
        if found:
            self.read.add(name)
        return found


def interval(row: Row, column: str = "final_return_mean") -> Interval:
    """A column of a table with its two bounds; NaN for an empty cell."""
    return Interval(*(float(row[column + end] or "nan") for end in ("", "_low", "_high")))


def seeds_and_frames(row: Row) -> str:
    """How much ran, of a row of a table."""
    seeds = int(row["seeds"])
    return f"{number_of(seeds, 'seed')}, {int(row['env_frames']):,} frames"
