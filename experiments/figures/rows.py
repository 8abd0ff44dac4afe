"""Figures of runs: panels, their rows, and the picture and table of the rows' returns."""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from experiments.figures import command
from experiments.figures.runs import Run, Runs, first_run
from re3_jax.runs import curves
from re3_jax.runs.curves import Curve


class Row(NamedTuple):
    """One curve: its label, the name of its files, and the run whose evaluations it shows."""

    label: str
    name: str
    run: Run


def file_name(label: str) -> str:
    """A label as a file name."""
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in label)


def legend_below(figure: Figure, columns: int) -> None:
    """One legend of all rows below the panels, in place of those inside, which many rows fill."""
    lines: dict[str, Artist] = {}
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        lines |= zip(names, handles, strict=True)
        if (legend := axes.get_legend()) is not None:
            legend.remove()
    handles, names = [*lines.values()], [*lines]
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)


Cells = Mapping[tuple[str, str], Curve]
"""Task and name of a row -> its curve."""


def by_task(cells: Cells, titles: Mapping[str, str]) -> dict[str, list[Curve]]:
    """Title of a task -> the curves of its rows."""
    panels: dict[str, list[Curve]] = {}
    for (task, _), curve in cells.items():
        panels.setdefault(titles[task], []).append(curve)
    return panels


def better_than(
    baseline: str, cells: Cells, compared: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Columns of a table: each cell's probability of improvement over one row of its task.

    Args:
      baseline: name of that row, whose own cells are empty.
      cells: of all tasks.
      compared: names of the rows to compare; all others by default.
    """
    return curves.better_than(
        baseline,
        [
            (curve, cells.get((task, baseline)) if is_compared else None)
            for (task, name), curve in cells.items()
            for is_compared in [name != baseline and (compared is None or name in compared)]
        ],
    )


Panels = dict[str, tuple[str, Sequence[Row]]]
"""Short name of a task -> title and rows of its panel."""


def load(
    words: command.Words, rows: Sequence[Row], files: Sequence[str] = ("eval",)
) -> dict[str, Curve]:
    """Name of a row -> its curve, once all runs are finished; with `--finished`, of those that are.

    The env frames of a run that starts from another go on from those of the other.

    Args:
      words: values of `command.OF_RUNS`, which override those of the rows, of `--out`, and of
        `command.FINISHED` if the figure has it.
      rows: the rows of all panels, with different names.
      files: tables to copy from every run: `eval` as NAME.csv, others as NAME-TABLE.csv.
    """
    given = {n: v for n, v in vars(words).items() if n in ("seeds", "steps") and v is not None}
    all_runs, wanted = Runs(words.runs, words.jobs), [row.run._replace(**given) for row in rows]
    folders = all_runs.of_figure(wanted, train=not getattr(words, "finished", False))
    words.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for row, run, folder in zip(rows, wanted, folders, strict=True):
        if folder is None:
            continue
        for file in files:
            name = row.name if file == "eval" else f"{row.name}-{file}"
            shutil.copyfile(folder / f"{file}.csv", words.out / f"{name}.csv")
        curve = up_to(curves.load(row.label, [folder]), run.steps)
        ended = frames_before(run, all_runs)
        found[row.name] = curve._replace(env_frames=curve.env_frames + ended)
    return found


def up_to(curve: Curve, steps: int) -> Curve:
    """A curve to its first evaluation after so many frames: its run may have gone on for longer."""
    end = int(np.searchsorted(curve.env_frames, steps)) + 1
    return curve._replace(env_frames=curve.env_frames[:end], returns=curve.returns[:, :end])


def frames_before(run: Run, runs: Runs) -> int:
    """Env frames per seed of the run that this one starts from."""
    before = first_run(run)
    if before is None:
        return 0
    trained = curves.load("", [runs.folder_of(before)]).env_frames[-1]
    return int(trained) + frames_before(before, runs)


def figure(
    name: str, panels: Panels, losses: Sequence[str] = (), baselines: Sequence[str] = ()
) -> Callable[..., int]:
    """The command of a figure of panels.

    Args:
      name: name of its module.
      panels: short name of a task -> title and rows of its panel.
      losses: columns of train.csv to draw below the returns; train.csv is then copied too.
      baselines: rows that the table compares the others of a task with, named without the task.
    """

    def make(words: command.Words) -> command.Lines:
        chosen = {name: panels[name] for name in words.tasks}
        rows = [(name, row) for name, (_, rows) in chosen.items() for row in rows]
        files = ("eval", "train") if losses else ("eval",)
        found = load(words, [row for _, row in rows], files)
        drawn: Panels = {
            name: (title, shown)
            for name, (title, rows) in chosen.items()
            if (shown := [row for row in rows if row.name in found])
        }
        cells = {
            (task, row.name.removeprefix(f"{task}-")): found[row.name]
            for task, row in rows
            if row.name in found
        }
        compared: dict[str, list[str]] = {"task": [task for task, _ in cells]}
        for baseline in baselines:
            compared |= better_than(baseline, cells)
        curves.write_table([*cells.values()], words.out / "table.csv", **compared)
        if losses:
            picture = _draw(drawn, found, losses, words.out)
        else:
            titled = {title: [found[row.name] for row in shown] for title, shown in drawn.values()}
            picture = curves.draw_panels(titled, (4.8, 3.9), across=3)
        curves.note_missing(picture, len(rows) - len(found), len(rows))
        picture.savefig(words.out / "curves.png")
        yield words.out / "curves.png"

    tasks: command.Options = {"--tasks": command.some_of(panels)}
    return command.of(name, make, tasks | command.FINISHED | command.STEPS | command.OF_RUNS)


def _draw(panels: Panels, found: Mapping[str, Curve], losses: Sequence[str], out: Path) -> Figure:
    heights = [3.9] + [2.0] * len(losses)
    figure = Figure((4.8 * len(panels), sum(heights)), dpi=130, layout="constrained")
    places = figure.subplots(len(heights), len(panels), squeeze=False, height_ratios=heights)
    for (title, rows), (above, *below) in zip(panels.values(), places.T, strict=True):
        curves.draw_axes(above, [found[row.name] for row in rows], title)
        for axes, loss in zip(below, losses, strict=True):
            for row, colour in zip(rows, curves.COLOURS, strict=False):
                of_seeds = curves.read(out / f"{row.name}-train.csv", loss).values()
                _, frames, values = curves.common(row.label, of_seeds)
                known = ~np.isnan(values).all(axis=0)
                known &= frames <= found[row.name].env_frames[-1]
                axes.plot(frames[known], np.nanmean(values[:, known], axis=0), color=colour)
            axes.set(xlabel="env frames", ylabel=loss.replace("_", " "), yscale="log")
    return figure
