"""Figures of runs: panels, their rows, and the picture and table of the rows' returns."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.figures import command, curves
from experiments.figures.curves import Curve
from experiments.figures.runs import Run, Runs


class Row(NamedTuple):
    """One curve: its label, the name of its files, and the run whose evaluations it shows."""

    label: str
    name: str
    run: Run


Panels = dict[str, tuple[str, Sequence[Row]]]
"""Short name of a task -> title and rows of its panel."""


def load(
    words: command.Words, rows: Sequence[Row], files: Sequence[str] = ("eval",)
) -> list[Curve]:
    """The curve of each row, once all runs are finished.

    Args:
      words: values of `command.OF_RUNS`, which override those of the rows, and of `--out`.
      rows: the rows of all panels.
      files: tables to copy from every run: `eval` as NAME.csv, others as NAME-TABLE.csv.
    """
    given = {n: v for n, v in vars(words).items() if n in ("seeds", "steps") and v is not None}
    folders = Runs(words.runs, words.jobs).ensure_all(row.run._replace(**given) for row in rows)
    words.out.mkdir(parents=True, exist_ok=True)
    for row, folder in zip(rows, folders, strict=True):
        for file in files:
            name = row.name if file == "eval" else f"{row.name}-{file}"
            shutil.copyfile(folder / f"{file}.csv", words.out / f"{name}.csv")
    return [curves.load(row.label, [folder]) for row, folder in zip(rows, folders, strict=True)]


def figure(name: str, panels: Panels, losses: Sequence[str] = ()) -> Callable[..., int]:
    """The command of a figure of panels.

    Args:
      name: name of its module.
      panels: short name of a task -> title and rows of its panel.
      losses: columns of train.csv to draw below the returns; train.csv is then copied too.
    """

    def make(words: command.Words) -> command.Lines:
        chosen = {name: panels[name] for name in words.tasks}
        rows = [(name, row) for name, (_, rows) in chosen.items() for row in rows]
        files = ("eval", "train") if losses else ("eval",)
        loaded = load(words, [row for _, row in rows], files)
        tasks = [name for name, _ in rows]
        curves.write_table(loaded, words.out / "table.csv", task=tasks)
        _draw(chosen, iter(loaded), losses, words.out).savefig(words.out / "curves.png")
        yield words.out / "curves.png"

    tasks: command.Options = {"--tasks": command.some_of(panels)}
    return command.of(name, make, tasks | command.STEPS | command.OF_RUNS)


def _draw(panels: Panels, loaded: Iterator[Curve], losses: Sequence[str], out: Path) -> Figure:
    heights = [3.9] + [2.0] * len(losses)
    figure = Figure((4.8 * len(panels), sum(heights)), dpi=130, layout="constrained")
    places = figure.subplots(len(heights), len(panels), squeeze=False, height_ratios=heights)
    for (title, rows), (above, *below) in zip(panels.values(), places.T, strict=True):
        curves.draw_axes(above, [next(loaded) for _ in rows], title)
        for axes, loss in zip(below, losses, strict=True):
            for row, colour in zip(rows, curves.COLOURS, strict=False):
                of_seeds = curves.read(out / f"{row.name}-train.csv", loss).values()
                _, frames, values = curves.common(row.label, of_seeds)
                known = ~np.isnan(values).all(axis=0)
                axes.plot(frames[known], np.nanmean(values[:, known], axis=0), color=colour)
            axes.set(xlabel="env frames", ylabel=loss.replace("_", " "), yscale="log")
    return figure
