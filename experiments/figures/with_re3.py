"""What figures of one agent with and without RE3 have in common: a panel a task.

Runs what is missing, goes on with what was cut off, and writes a picture, a table, and every
run's eval.csv. Losses, where a panel has any, are drawn below its returns, with their train.csv.
"""

import argparse
import csv
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.config import AgentName, BonusName
from experiments.errors import UsageError
from experiments.figures import curves, rows
from experiments.figures.jobs import Jobs

PRESET = "recommended"


class Row(NamedTuple):
    """One curve.

    Attributes:
      suffix: of the agent's label.
      bonus: that is added.
      changes: of the preset's options.
      name: in the names of files; by default the bonus.
    """

    suffix: str
    bonus: BonusName
    changes: Mapping[str, Any] = MappingProxyType({})
    name: str | None = None

    @property
    def key(self) -> str:
        """What its files are called after the task."""
        return self.name or self.bonus


WITH_AND_WITHOUT = (Row("", "none"), Row(" + RE3", "re3"))


class Panel(NamedTuple):
    """One task.

    Attributes:
      task: canonical name.
      title: above the panel.
      seeds: number of seeds of every row.
      steps: env frames of each.
      losses: columns of train.csv to be drawn.
      rows: its curves.
    """

    task: str
    title: str
    seeds: int
    steps: int
    losses: tuple[str, ...] = ()
    rows: tuple[Row, ...] = WITH_AND_WITHOUT


def main(
    agent: AgentName, label: str, panels: dict[str, Panel], argv: Sequence[str] | None = None
) -> int:
    """The command of a figure.

    Args:
      agent: that is trained; also the figure's name.
      label: of its curve.
      panels: the tasks, by short names.
      argv: words of the command line.
    """
    parser = argparse.ArgumentParser(prog=f"python -m experiments.figures.{agent}")
    parser.add_argument("--tasks", nargs="+", default=list(panels), choices=list(panels))
    parser.add_argument("--seeds", type=int, help="by default each panel's")
    parser.add_argument("--steps", type=int, help="env frames; by default each panel's")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on its cores")
    parser.add_argument("--runs", type=Path, default=rows.RUNS)
    parser.add_argument("--out", type=Path, default=Path(f"results/{agent}"))
    words = parser.parse_args(argv)
    words.out.mkdir(parents=True, exist_ok=True)
    cells = [(name, row) for name in words.tasks for row in range(len(panels[name].rows))]
    try:
        jobs = Jobs(words.jobs)

        def folder_of(cell: tuple[str, int]) -> Path:
            name, number = cell
            panel = panels[name]
            row = panel.rows[number]
            return rows.ensure(
                panel.task,
                row.bonus,
                PRESET,
                changes=row.changes,
                agent=agent,
                seeds=words.seeds or panel.seeds,
                steps=words.steps or panel.steps,
                runs=words.runs,
                jobs=jobs,
            )

        folders = dict(zip(cells, jobs.map(folder_of, cells), strict=True))
        chosen = {name: panels[name] for name in words.tasks}
        figure, table = _draw(label, chosen, folders)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for (name, number), folder in folders.items():
        key = f"{name}-{panels[name].rows[number].key}"
        shutil.copyfile(folder / "eval.csv", words.out / f"{key}.csv")
        if panels[name].losses:
            shutil.copyfile(folder / "train.csv", words.out / f"{key}-train.csv")
    figure.savefig(words.out / "curves.png")
    with (words.out / "table.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows(table)
    print(words.out / "curves.png")
    return 0


def _draw(
    label: str, panels: dict[str, Panel], folders: dict[tuple[str, int], Path]
) -> tuple[Figure, list[list[Any]]]:
    depth = 1 + max(len(panel.losses) for panel in panels.values())
    size = 4.8 * len(panels), 3.9 + 2.0 * (depth - 1)
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    ratios = [3.9] + [2.0] * (depth - 1)
    places = figure.subplots(depth, len(panels), squeeze=False, height_ratios=ratios)
    table: list[list[Any]] = [["task", *curves.TABLE_COLUMNS]]
    for column, (name, panel) in enumerate(panels.items()):
        loaded = [
            curves.load(label + row.suffix, [folders[name, number]])
            for number, row in enumerate(panel.rows)
        ]
        curves.draw_axes(places[0, column], loaded, panel.title)
        table += [[name, *row] for row in curves.table_rows(loaded)]
        for axes, loss in zip(places[1:, column], panel.losses, strict=False):
            for number, colour in zip(range(len(panel.rows)), curves.COLOURS, strict=False):
                means = _mean_over_seeds(folders[name, number] / "train.csv", loss)
                axes.plot(*means, color=colour)
            axes.set(xlabel="env frames", ylabel=loss.replace("_", " "), yscale="log")
    return figure, table


def _mean_over_seeds(table: Path, column: str) -> tuple[list[int], list[float]]:
    """Env frames, and the mean of what is known there."""
    found: dict[int, list[float]] = defaultdict(list)
    with table.open() as lines:
        for row in csv.DictReader(lines):
            if row[column] not in ("", "nan"):
                found[int(row["env_frames"])].append(float(row[column]))
    frames = sorted(found)
    return frames, [float(np.mean(found[frame])) for frame in frames]
