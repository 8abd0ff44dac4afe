"""Learning curves with a 95% band, and their table, from the eval.csv of runs."""

import csv
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from re3_jax.plural import number_of
from re3_jax.runs import statistics
from re3_jax.runs.errors import UsageError
from re3_jax.training.whole_file import replacing

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can distinguish."""

TABLE_COLUMNS = (
    *("label", "seeds", "env_frames"),
    *("final_return_mean", "final_return_mean_low", "final_return_mean_high"),
    *("final_return_iqm", "final_return_iqm_low", "final_return_iqm_high"),
    "area_under_curve",
)


class NotebookFigure(Figure):
    """A figure that a notebook shows, whatever its plotting backend."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()


class Curve(NamedTuple):
    """Mean evaluation returns of all seeds under one label, and their env frames."""

    label: str
    env_frames: Int[np.ndarray, " point"]
    returns: Float[np.ndarray, "seed point"]


def read(path: Path, column: str) -> dict[str, dict[int, float]]:
    """Seed -> env frames -> value in a table of a run; NaN for an empty cell.

    A last line without its end is left out: it is being written, or a full disk cut it.

    Raises:
      UsageError: there is no such file, or it has no such column, or a line of it is broken.
    """
    series: dict[str, dict[int, float]] = {}
    try:
        text = path.read_text()
        # A byte that became a quotation mark must not make one cell of all lines after it.
        whole = text[: text.rfind("\n") + 1].splitlines()
        for row in csv.DictReader(whole, quoting=csv.QUOTE_NONE):
            points = series.setdefault(row["seed"], {})
            # A line with too few cells has None in the last ones.
            value = float("nan" if row[column] == "" else row[column])
            points[int(np.int64(row["env_frames"]))] = value
    except OSError:
        raise UsageError(f"{path.parent} has no {path.name}: give the folder of a run") from None
    except KeyError:
        raise UsageError(f"{path} has no column {column}: give the folder of another run") from None
    except (ValueError, TypeError, OverflowError, csv.Error):
        raise UsageError(
            f"{path} has a damaged line: restore it from a copy, or leave its run out"
        ) from None
    return series


def common(label: str, series: Collection[Mapping[int, float]]) -> Curve:
    """The curve of each seed's values at the env frames that all seeds have in common."""
    frames = sorted(set.intersection(*map(set, series))) if series else []
    returns = [[points[frame] for frame in frames] for points in series]
    return Curve(label, np.asarray(frames), np.asarray(returns))


def load(label: str, folders: Sequence[Path]) -> Curve:
    """The curve of the runs' eval.csv.

    It reaches over the frames that all seeds went through. Its points are the first and the last of
    them and those of the seed that was evaluated least often; between evaluations seeds are linear.

    Raises:
      UsageError: there is no such frame, or a file cannot be read.
    """
    tables = [read(folder / "eval.csv", "return_mean") for folder in folders]
    seeds = [np.array(sorted(points.items())) for table in tables for points in table.values()]
    start = max((seed[0, 0] for seed in seeds), default=0)
    end = min((seed[-1, 0] for seed in seeds), default=-1)
    if start > end:
        raise UsageError(
            f"the runs of {label} were not evaluated over the same env frames: train them further, "
            "or leave one out"
        )
    shared = [seed[(seed[:, 0] >= start) & (seed[:, 0] <= end), 0] for seed in seeds]
    # Whatever the order of the folders.
    frames = np.union1d(min(shared, key=lambda one: (len(one), *one)), [start, end])
    returns = np.stack([np.interp(frames, *seed.T) for seed in seeds])
    return Curve(label, frames.astype(int), returns)


def at(curve: Curve, env_frame: int) -> Float[np.ndarray, " seed"]:
    """The return of each seed at a frame: linear between two evaluations, constant outside."""
    return np.stack([np.interp(env_frame, curve.env_frames, each) for each in curve.returns])


def picture(curves: Sequence[Curve], title: str) -> Figure:
    """All curves in one picture: mean over seeds, 95% band of the mean."""
    return draw_panels({title: curves}, (6.4, 4.2), across=1, dpi=150)


def save(figure: Figure, path: Path) -> None:
    """Replaces `path` in one step."""
    with replacing(path) as part:
        figure.savefig(part, format=path.suffix.lstrip(".") or "png")


def draw_panels(
    panels: Mapping[str, Sequence[Curve]],
    size: tuple[float, float],
    across: int,
    dpi: int = 130,
    panel: Callable[[Axes, Sequence[Curve], str], None] | None = None,
) -> Figure:
    """One panel per title, each of `size` inches, in as few rows of `across` as hold them.

    Where fewer in a row need no more rows, there are fewer: two rows of two for four panels.

    `panel` draws one; by default it is `draw_axes`.
    """
    down = math.ceil(len(panels) / across)
    across = math.ceil(len(panels) / down)
    figure = NotebookFigure(
        figsize=(size[0] * across, size[1] * down), dpi=dpi, layout="constrained"
    )
    places = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (title, curves) in zip(places, panels.items(), strict=False):
        (panel or draw_axes)(axes, curves, title)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    return figure


def draw_axes(
    axes: Axes, curves: Sequence[Curve], title: str, labels: Sequence[str] | None = None
) -> None:
    """Draws learning curves into existing axes, for figures of several panels.

    A curve has the colour of its place in `labels`, by default in `curves`.
    """
    intervals = [statistics.mean_interval(curve.returns) for curve in curves]
    means, bands = [mean for mean, *_ in intervals], [(low, high) for _, low, high in intervals]
    frames = [curve.env_frames for curve in curves]
    draw_lines(axes, curves, frames, means, bands, labels)
    fit_height(axes, [curve.returns for curve in curves])
    axes.set(title=title, xlabel="env frames per seed", ylabel="evaluation return (mean, 95% band)")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=0)


def fit_height(axes: Axes, values: Sequence[Float[np.ndarray, "..."]]) -> None:
    """Lets an axis reach as far as finite values do; the band of few seeds may reach farther."""
    measured = np.hstack([*map(np.ravel, values)])
    measured = measured[np.isfinite(measured)]
    if measured.size:
        low, high = measured.min(), measured.max()
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
        axes.set_ylim(low - margin, high + margin)


def draw_lines(
    axes: Axes,
    curves: Sequence[Curve],
    x: Sequence[Float[np.ndarray, " point"]],
    y: Sequence[Float[np.ndarray, " point"]],
    bands: Sequence[tuple[np.ndarray, np.ndarray]],
    labels: Sequence[str] | None = None,
    always_bands: bool = False,
) -> None:
    """One line per curve, with its legend, and with its band if it has several seeds.

    `always_bands` also draws bands that are not intervals over seeds.
    """
    for i, curve in enumerate(curves):
        place = labels.index(curve.label) if labels else i
        colour = COLOURS[place % len(COLOURS)]
        line, seeds = "-" if place < len(COLOURS) else "--", len(curve.returns)
        label = f"{curve.label} ({number_of(seeds, 'seed')})"
        axes.plot(x[i], y[i], line, color=colour, linewidth=1.8, label=label)
        if seeds > 1 or always_bands:
            axes.fill_between(x[i], *bands[i], color=colour, alpha=0.2, lw=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best")


def note_missing(figure: Figure, missing: int, wanted: int) -> None:
    """Says above a picture how many of its runs are missing, if any are."""
    if missing:
        figure.suptitle(f"{missing} of {wanted} runs are still missing")


def area(curve: Curve) -> float:
    """Mean height of a curve (trapezoids) from frame 0, mean over seeds, in units of return.

    Frames before the first evaluation, those of pre-training, have height 0.
    """
    return float(areas(curve, int(curve.env_frames[-1])).mean())


def areas(curve: Curve, end: int) -> Float[np.ndarray, " seed"]:
    """Mean height of each seed's curve from frame 0 to `end`; it is 0 before its first frame.

    Args:
      curve: reaches `end`; linear between its frames.
      end: in env frames.
    """
    frames = np.append(curve.env_frames[curve.env_frames < end], end)
    heights = np.stack([np.interp(frames, curve.env_frames, each) for each in curve.returns])
    return np.trapezoid(heights, frames, axis=1) / end if end else heights[:, 0]


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Writes a table, in one step."""
    with replacing(path) as part, part.open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])


def better_than(name: str, pairs: Iterable[tuple[Curve, Curve | None]]) -> dict[str, list[str]]:
    """Columns of `improvement` for `write_table`, for pairs of a curve and its baseline, `name`."""
    starts = f"better_than_{name}", f"larger_area_than_{name}"
    ends = "", "_low", "_high", "_p"
    columns = [f"{start}{end}" for start in starts for end in ends]
    cells = zip(*(improvement(*pair) for pair in pairs), strict=True)
    return {column: [*values] for column, values in zip(columns, cells, strict=True)}


def improvement(curve: Curve, baseline: Curve | None) -> list[str]:
    """Probability that a run of `curve` ends above one of `baseline`, and its 95% interval and p.

    The end is the last frame that both reached. Then the same of the areas up to that frame, which
    are larger where a run learns earlier. The cells are empty if one has a single seed.
    """
    if baseline is None or min(len(curve.returns), len(baseline.returns)) < 2:
        return [""] * 8
    end = int(min(curve.env_frames[-1], baseline.env_frames[-1]))
    both = curve, baseline
    finals = [at(each, end) for each in both]
    probability, cells = statistics.probability_of_improvement, []
    for pair in (finals, [areas(each, end) for each in both]):
        interval = statistics.bootstrap_interval(probability, *pair)
        p_value = statistics.permutation_p_value(*pair)
        cells += [f"{x:.6g}" for x in (probability(*pair), *interval, p_value)]
    return cells


def table(curves: Sequence[Curve], **before: Iterable[str]) -> tuple[list[str], list[list[object]]]:
    """Header and one row per curve: `before`, with one value per curve, then `TABLE_COLUMNS`.

    A cell is empty where one seed has no interval.
    """
    rows = []
    for curve, *first in zip(curves, *before.values(), strict=True):
        final = curve.returns[:, -1]
        numbers = (*np.hstack([*statistics.final_returns(final).values()]), area(curve))
        counts = (len(final), curve.env_frames[-1])
        rows.append([*first, curve.label, *counts, *map(cell, numbers)])
    return [*before, *TABLE_COLUMNS], rows


def cell(number: float) -> str:
    """Six digits; empty for NaN."""
    return "" if math.isnan(number) else f"{number:.6g}"


def write_table(curves: Sequence[Curve], path: Path, **before: Iterable[str]) -> None:
    """Writes `table`."""
    write_csv(path, *table(curves, **before))
