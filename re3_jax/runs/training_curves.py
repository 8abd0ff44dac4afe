"""Curves of what training recorded: the columns of train.csv, with a band over seeds or quantiles.

A table has a row for each chunk. Here its rows are averaged over equal parts of the run, so that
runs with chunks of different lengths are comparable, and noise of single chunks does not hide a
curve.
"""

import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from re3_jax.intrinsic.diagnostics import QUANTILES
from re3_jax.runs import curves, history, run_folder, statistics
from re3_jax.runs.curves import Curve

PARTS = 150
"""Parts into which the env frames of a curve are divided."""

OF_BONUS = (
    *("intrinsic_reward", "nearest_distance", "duplicate_share", "running_std", "running_mean"),
    *("beta", "state_coverage", "state_entropy"),
)
"""How the columns begin that diagnose any bonus."""

LOW, MIDDLE, HIGH = (f"_{suffix}" for suffix in QUANTILES)

Band = tuple[np.ndarray, np.ndarray]
"""Lower and upper edge [part]."""

Columns = dict[str, Curve]
"""Column -> its means in equal parts of the run, [seed, part], NaN where there are none."""


def read(folder: Path) -> tuple[np.ndarray, dict[str, Float[np.ndarray, "seed chunk"]]]:
    """Env frames [chunk] and every column of a run's train.csv; nothing if there is no file.

    Raises:
      UsageError: it has a damaged line.
    """
    seeds = run_folder.config_with(["seeds"], folder)["seeds"]
    found = history.read(folder / "train.csv", seeds)
    frames = found.pop("env_frames")
    del found["wall_seconds"]
    return frames, found


def of_row(label: str, folders: Sequence[Path]) -> Columns:
    """The columns that all runs of a row have, under the label of the row."""
    tables = [read(folder) for folder in folders]
    end = min((frames.max(initial=0) for frames, _ in tables), default=0)
    edges = np.linspace(0, end, PARTS + 1)
    names = set.intersection(*(set(columns) for _, columns in tables))
    return {
        name: Curve(
            label,
            edges[1:],
            np.concatenate([_parts(frames, columns[name], edges) for frames, columns in tables]),
        )
        for name in sorted(names)
    }


def _parts(
    frames: np.ndarray, values: Float[np.ndarray, "seed chunk"], edges: Float[np.ndarray, " edge"]
) -> Float[np.ndarray, "seed part"]:
    """Means over the chunks that end in each part; what ends past the last edge is left out."""
    part = np.searchsorted(edges, frames) - 1
    means = np.full((len(values), len(edges) - 1), np.nan)
    for i in np.unique(part[(part >= 0) & (part < means.shape[1])]):
        means[:, i] = _mean(values[:, part == i], axis=1)
    return means


def _is_of_bonus(name: str, parts: Collection[str]) -> bool:
    """Whether a column diagnoses one of these bonuses: what begins with its name and is no loss."""
    is_own = any(name.startswith(f"{part}_") for part in parts)
    return name.startswith(OF_BONUS) or (is_own and not name.endswith("_loss"))


def draw(
    rows: Sequence[tuple[str, Columns]], of_bonus: bool, parts: Collection[str]
) -> Figure | None:
    """One panel for each column that diagnoses the bonus, or for each other one; None without any.

    Three quantiles are one panel: the median, with a band from the 5 to the 95% quantile. Other
    bands are the 95% interval of the mean over seeds.

    Args:
      rows: labels and columns; a row has the colour of its place among all.
      of_bonus: which columns.
      parts: the names of bonuses, those of a sum one by one.
    """
    labels = [label for label, _ in rows]
    panels: dict[str, list[Curve]] = {}
    for _, columns in rows:
        for name, curve in columns.items():
            if _is_of_bonus(name, parts) == of_bonus and np.isfinite(curve.returns).any():
                panels.setdefault(name, []).append(curve)
    quantiles = {
        base + MIDDLE: _quantiles(panels, base)
        for base in [name.removesuffix(MIDDLE) for name in panels]
        if _have_the_same_rows(panels, [base + end for end in (LOW, MIDDLE, HIGH)])
    }
    if not panels:
        return None

    def panel(axes: Axes, drawn: Sequence[Curve], name: str) -> None:
        _draw_panel(axes, drawn, name, quantiles.get(name), labels)

    figure = curves.draw_panels(panels, (3.6, 2.5), across=3, dpi=110, panel=panel)
    # One legend for all panels, which have different rows.
    lines: dict[str, Any] = {}
    for axes in figure.axes[: len(panels)]:
        handles, names = axes.get_legend_handles_labels()
        lines |= dict(zip(names, handles, strict=True))
        if legend := axes.get_legend():
            legend.remove()
    figure.legend([*lines.values()], [*lines], loc="outside upper left", frameon=False, ncols=3)
    return figure


def _have_the_same_rows(panels: dict[str, list[Curve]], names: Sequence[str]) -> bool:
    """Whether all these columns are there with the same rows: one may be infinite in a row."""
    rows = [[curve.label for curve in panels.get(name, [])] for name in names]
    return rows[0] != [] and all(row == rows[0] for row in rows)


def _quantiles(panels: dict[str, list[Curve]], base: str) -> list[Band]:
    """Takes the outer quantiles out of the panels: means over seeds, one band for each row."""
    low, high = (panels.pop(base + end) for end in (LOW, HIGH))
    return [(_mean(a.returns, 0), _mean(b.returns, 0)) for a, b in zip(low, high, strict=True)]


def _draw_panel(
    axes: Axes,
    drawn: Sequence[Curve],
    name: str,
    quantiles: Sequence[Band] | None,
    labels: Sequence[str],
) -> None:
    means = [_mean(curve.returns, 0) for curve in drawn]
    bands: Sequence[Band] = quantiles or [
        statistics.mean_interval(curve.returns)[1:] for curve in drawn
    ]
    # A line through what there is: a chunk in which no episode ended leaves no gap.
    shown = [np.isfinite(mean) for mean in means]
    x = [curve.env_frames[at] for curve, at in zip(drawn, shown, strict=True)]
    y = [mean[at] for mean, at in zip(means, shown, strict=True)]
    kept = [(low[at], high[at]) for (low, high), at in zip(bands, shown, strict=True)]
    curves.draw_lines(axes, drawn, x, y, kept, labels, always_bands=quantiles is not None)
    values = [np.array(band) for band in quantiles] if quantiles else [c.returns for c in drawn]
    curves.fit_height(axes, values)
    title = f"{name.removesuffix(MIDDLE)}, 5 to 95% quantile" if quantiles else name
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """The mean of what is a number; NaN where nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean: np.ndarray = np.nanmean(values, axis=axis)
    return mean
