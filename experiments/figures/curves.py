"""Learning curves with a 95% band from the eval.csv of runs, and their table.

    python -m experiments.figures.curves LABEL=RUN_DIR [LABEL=RUN_DIR ...] --out FILE.png

Runs of the same label are pooled. Beside FILE.png, FILE.csv holds the table.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.errors import UsageError
from experiments.statistics import (
    interquartile_mean,
    interquartile_mean_interval,
    mean_half_width,
)

matplotlib.use("Agg")

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette: told apart by colour-blind readers too."""

TABLE_COLUMNS = (
    "label",
    "seeds",
    "env_frames",
    "final_return_mean",
    "final_return_mean_low",
    "final_return_mean_high",
    "final_return_iqm",
    "final_return_iqm_low",
    "final_return_iqm_high",
    "area_under_curve",
)


@dataclass(frozen=True)
class Curve:
    """Evaluation returns of all seeds under one label.

    Attributes:
      label: name in the legend.
      env_frames: where they were evaluated.
      returns: mean return of each evaluation.
    """

    label: str
    env_frames: Int[np.ndarray, " point"]
    returns: Float[np.ndarray, "seed point"]


def load(label: str, folders: Sequence[Path]) -> Curve:
    """Reads the eval.csv of each run; keeps the frames at which every seed was evaluated.

    Raises:
      UsageError: a folder has no eval.csv with rows, or the runs share no frame.
    """
    series: dict[tuple[Path, str], dict[int, float]] = {}
    for folder in folders:
        try:
            with (folder / "eval.csv").open() as lines:
                for row in csv.DictReader(lines):
                    points = series.setdefault((folder, row["seed"]), {})
                    points[int(row["env_frames"])] = float(row["return_mean"])
        except OSError:
            raise UsageError(f"{folder} has no eval.csv: give the folder of a run") from None
    frames = sorted(set.intersection(*map(set, series.values()))) if series else []
    if not frames:
        raise UsageError(f"the runs of {label} have no evaluated frame in common")
    returns = [[points[frame] for frame in frames] for points in series.values()]
    return Curve(label, np.asarray(frames), np.asarray(returns))


def draw(curves: Sequence[Curve], title: str, path: Path) -> None:
    """Draws all curves into one picture: mean over seeds, 95% band of the mean."""
    figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
    draw_axes(figure.subplots(), curves, title)
    partial = path.with_name(f".{path.name}")
    figure.savefig(partial, format=path.suffix.lstrip(".") or "png")
    partial.replace(path)


def draw_axes(axes: Axes, curves: Sequence[Curve], title: str) -> None:
    """Draws into axes that are already there, for figures of several panels."""
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        line = "-" if i < len(COLOURS) else "--"
        mean = curve.returns.mean(axis=0)
        half = mean_half_width(curve.returns)
        seeds = curve.returns.shape[0]
        axes.plot(
            curve.env_frames,
            mean,
            line,
            color=colour,
            linewidth=1.8,
            label=f"{curve.label} ({seeds} seed{'s' if seeds > 1 else ''})",
        )
        if seeds > 1:
            axes.fill_between(
                curve.env_frames, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0
            )
    # A band of few seeds may reach far beyond what was ever measured; the axis does not.
    low = min(curve.returns.min() for curve in curves)
    high = max(curve.returns.max() for curve in curves)
    margin = 0.05 * (high - low) or 0.05
    axes.set_ylim(low - margin, high + margin)
    axes.set_title(title)
    axes.set_xlabel("env frames per seed")
    axes.set_ylabel("evaluation return (mean, 95% band)")
    axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter(sep=""))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best")


def table_rows(curves: Sequence[Curve]) -> list[list[str]]:
    """One row per curve under `TABLE_COLUMNS`: final return with 95% intervals, and area.

    The area is the mean height of the curve over its frames (trapezoids), in units of return.
    """
    rows = []
    for curve in curves:
        final = curve.returns[:, -1]
        mean, half = final.mean(), mean_half_width(final)
        low, high = interquartile_mean_interval(final)
        heights = curve.returns.mean(axis=0)
        span = curve.env_frames[-1] - curve.env_frames[0]
        area = np.trapezoid(heights, curve.env_frames) / span if span else heights[0]
        numbers = (mean, mean - half, mean + half, interquartile_mean(final), low, high, area)
        counts = (len(final), curve.env_frames[-1])
        rows.append([curve.label, *map(str, counts), *(f"{x:.6g}" for x in numbers)])
    return rows


def write_table(curves: Sequence[Curve], path: Path) -> None:
    """Writes `table_rows` with their header."""
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([TABLE_COLUMNS, *table_rows(curves)])


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.curves")
    parser.add_argument("runs", nargs="+", metavar="LABEL=RUN_DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.png")
    parser.add_argument("--title", default="")
    words = parser.parse_args(argv)
    folders: dict[str, list[Path]] = {}
    try:
        for word in words.runs:
            label, equals, folder = word.partition("=")
            if not equals:
                raise UsageError(f"'{word}' is not a labelled run: write it as LABEL=RUN_DIR")
            folders.setdefault(label, []).append(Path(folder))
        curves = [load(label, paths) for label, paths in folders.items()]
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    words.out.parent.mkdir(parents=True, exist_ok=True)
    draw(curves, words.title, words.out)
    write_table(curves, words.out.with_suffix(".csv"))
    print(f"{words.out}\n{words.out.with_suffix('.csv')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
