"""Rainbow with and without RE3 on MinAtar.

    make figure FIG=rainbow [ARGS="--jobs 2"]
    python -m experiments.figures.rainbow [--tasks breakout] [--seeds N] [--steps N]

Runs what is missing, goes on with what was cut off, and writes a picture with a panel per task, a
table, and every run's eval.csv.
"""

import argparse
import csv
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from experiments.config import BonusName
from experiments.errors import UsageError
from experiments.figures import curves, rows
from experiments.figures.jobs import Jobs

PRESET = "recommended"


class Panel(NamedTuple):
    """One task.

    Attributes:
      task: canonical name.
      title: above the panel.
      seeds: number of seeds of every row.
      steps: env frames of each.
    """

    task: str
    title: str
    seeds: int
    steps: int


PANELS = {
    "breakout": Panel("gymnax:Breakout-MinAtar", "Breakout (MinAtar)", 5, 400_000),
}

ROWS: dict[str, BonusName] = {"Rainbow": "none", "Rainbow + RE3": "re3"}


def ensure(
    panel: Panel, bonus: BonusName, seeds: int | None, steps: int | None, runs: Path, jobs: Jobs
) -> Path:
    """The folder of a finished run."""
    return rows.ensure(
        panel.task,
        bonus,
        PRESET,
        agent="rainbow",
        seeds=seeds or panel.seeds,
        steps=steps or panel.steps,
        runs=runs,
        jobs=jobs,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.rainbow")
    parser.add_argument("--tasks", nargs="+", default=list(PANELS), choices=list(PANELS))
    parser.add_argument("--seeds", type=int, help="by default each panel's")
    parser.add_argument("--steps", type=int, help="env frames; by default each panel's")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on its cores")
    parser.add_argument("--runs", type=Path, default=rows.RUNS)
    parser.add_argument("--out", type=Path, default=Path("results/rainbow"))
    words = parser.parse_args(argv)
    words.out.mkdir(parents=True, exist_ok=True)
    cells = [(name, label) for name in words.tasks for label in ROWS]
    try:
        jobs = Jobs(words.jobs)

        def folder_of(cell: tuple[str, str]) -> Path:
            name, label = cell
            return ensure(PANELS[name], ROWS[label], words.seeds, words.steps, words.runs, jobs)

        folders = dict(zip(cells, jobs.map(folder_of, cells), strict=True))
        figure = Figure(figsize=(4.8 * len(words.tasks), 3.9), dpi=130, layout="constrained")
        table = [["task", *curves.TABLE_COLUMNS]]
        places = figure.subplots(1, len(words.tasks), squeeze=False)[0]
        for axes, name in zip(places, words.tasks, strict=True):
            panel = [curves.load(label, [folders[name, label]]) for label in ROWS]
            curves.draw_axes(axes, panel, PANELS[name].title)
            table += [[name, *row] for row in curves.table_rows(panel)]
            for label, bonus in ROWS.items():
                shutil.copyfile(
                    folders[name, label] / "eval.csv", words.out / f"{name}-{bonus}.csv"
                )
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    figure.savefig(words.out / "curves.png")
    with (words.out / "table.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows(table)
    print(words.out / "curves.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
