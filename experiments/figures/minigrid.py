"""The paper's MiniGrid figure: A2C against A2C + RE3 on three tasks, for each preset.

    make figure FIG=minigrid
    python -m experiments.figures.minigrid [--presets released paper] [--seeds 10]

Runs what is missing, goes on with what was cut off, and writes, for each preset, a picture
with a panel per task and a table; and every run's eval.csv beside them.
"""

import argparse
import csv
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from experiments.errors import UsageError
from experiments.figures import curves, rows
from experiments.presets import minigrid

TASKS = {"empty_16x16": "Empty-16x16", "doorkey_6x6": "DoorKey-6x6", "doorkey_8x8": "DoorKey-8x8"}
"""Tasks by bare name, and their rows in the paper's table."""

BONUSES = {"none": "A2C", "re3": "A2C + RE3"}


def draw(preset: str, runs: dict[tuple[str, str], Path], out: Path) -> None:
    """One panel a task, one curve a bonus; and the table under all of them."""
    figure = Figure(figsize=(4.6 * len(TASKS), 3.8), dpi=130, layout="constrained")
    table = [["task", *curves.TABLE_COLUMNS]]
    tasks = [task for task in TASKS if any(key[0] == task for key in runs)]
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        panel = [
            curves.load(label, [runs[task, bonus]])
            for bonus, label in BONUSES.items()
            if (task, bonus) in runs
        ]
        curves.draw_axes(axes, panel, task)
        axes.set_ylim(-0.02, 1.0)
        table += [[task, *row] for row in curves.table_rows(panel)]
    figure.savefig(out / f"{preset}.png")
    with (out / f"{preset}.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows(table)


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.minigrid")
    parser.add_argument("--presets", nargs="+", default=["released", "paper"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=Path, default=rows.RUNS)
    parser.add_argument("--out", type=Path, default=Path("results/minigrid"))
    words = parser.parse_args(argv)
    words.out.mkdir(parents=True, exist_ok=True)
    try:
        for preset in words.presets:
            runs = {}
            for task in words.tasks:
                steps = minigrid.TASKS[TASKS[task]].budget
                for bonus in BONUSES:
                    folder = rows.ensure(
                        task, bonus, preset, seeds=words.seeds, steps=steps, runs=words.runs
                    )
                    copy = words.out / f"{preset}-{task}-{bonus}.csv"
                    shutil.copyfile(folder / "eval.csv", copy)
                    runs[task, bonus] = folder
            draw(preset, runs, words.out)
            print(words.out / f"{preset}.png")
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
