"""The paper's MiniGrid figure: A2C with and without exploration bonuses and pre-training.

    make figure FIG=minigrid [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid [--presets recommended] [--rows none re3] [--seeds 10]

Runs what is missing, goes on with what was cut off, and writes, for each preset, a picture
with a panel per task and a table; and every run's eval.csv beside them. Betas are those that
`minigrid_betas` found for the preset, on other seeds; where it has not searched, the preset's.
"""

import argparse
import csv
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from matplotlib.figure import Figure

from experiments.config import PresetName
from experiments.errors import UsageError
from experiments.figures import curves, minigrid_rows, rows
from experiments.figures.jobs import Jobs
from experiments.figures.minigrid_rows import ROWS, TASKS
from experiments.presets import minigrid

Runs = dict[tuple[str, str], Path]
"""(task, row) -> run folder."""

Betas = dict[str, dict[str, float]]
"""Task -> row -> beta."""


def ensure_all(
    preset: str,
    tasks: Sequence[str],
    names: Sequence[str],
    seeds: int,
    betas: Betas,
    runs: Path,
    jobs: Jobs,
) -> Runs:
    """The folders of all cells, each run to the paper's budget."""

    def ensure(cell: tuple[str, str]) -> Path:
        task, name = cell
        return minigrid_rows.ensure(
            ROWS[name],
            task,
            preset,
            seeds=seeds,
            steps=minigrid.BUDGETS[TASKS[task]],
            beta=betas.get(task, {}).get(name),
            runs=runs,
            jobs=jobs,
        )

    cells = [(task, name) for task in tasks for name in names]
    return dict(zip(cells, jobs.map(ensure, cells), strict=True))


def draw(preset: PresetName, runs: Runs, betas: Betas, out: Path) -> None:
    """One panel a task, one curve a row; and the table under all of them."""
    tasks = [task for task in TASKS if any(key[0] == task for key in runs)]
    figure = Figure(figsize=(4.6 * len(tasks), 4.3), dpi=130, layout="constrained")
    table = [["task", "beta", *curves.TABLE_COLUMNS]]
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        names = [name for name in ROWS if (task, name) in runs]
        panel = [curves.load(ROWS[name].label, [runs[task, name]]) for name in names]
        curves.draw_axes(axes, panel, TASKS[task])
        axes.set_ylim(-0.02, 1.0)
        axes.get_legend().remove()
        for name, row in zip(names, curves.table_rows(panel), strict=True):
            beta = minigrid_rows.beta_of(name, task, preset, betas)
            table.append([task, "" if beta is None else f"{beta:g}", *row])
    lines, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(out / f"{preset}.png")
    with (out / f"{preset}.csv").open("w", newline="") as lines_out:
        csv.writer(lines_out).writerows(table)


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.minigrid")
    presets = get_args(PresetName)
    parser.add_argument("--presets", nargs="+", default=["recommended"], choices=presets)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on its cores")
    parser.add_argument("--betas", type=Path, default=minigrid_rows.BETAS)
    parser.add_argument("--runs", type=Path, default=rows.RUNS)
    parser.add_argument("--out", type=Path, default=Path("results/minigrid"))
    words = parser.parse_args(argv)
    words.out.mkdir(parents=True, exist_ok=True)
    try:
        jobs = Jobs(words.jobs)
        for preset in words.presets:
            betas = minigrid_rows.searched_betas(preset, words.betas)
            runs = ensure_all(preset, words.tasks, words.rows, words.seeds, betas, words.runs, jobs)
            for (task, name), folder in runs.items():
                shutil.copyfile(folder / "eval.csv", words.out / f"{preset}-{task}-{name}.csv")
            draw(preset, runs, betas, words.out)
            print(words.out / f"{preset}.png")
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
