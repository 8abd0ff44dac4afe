"""A search of settings on a grid, on seeds that no figure uses, as a table of learning curves."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.figures import command
from experiments.figures.rows import up_to
from experiments.figures.runs import Run, Runs
from re3_jax.runs import curves

FIRST_SEED, SEEDS = 101, 3

Setting = Mapping[str, float]


class Grid(NamedTuple):
    """What is tried of one row of a figure.

    Attributes:
      label: of the row.
      run: its run, whose seeds are replaced.
      options: dotted option -> the values tried, each with each of the others.
    """

    label: str
    run: Run
    options: Mapping[str, tuple[float, ...]]

    def settings(self) -> list[dict[str, float]]:
        """All settings."""
        names, values = self.options.keys(), itertools.product(*self.options.values())
        return [dict(zip(names, each, strict=True)) for each in values]

    def run_of(self, setting: Setting) -> Run:
        """The run of a setting; the first neighbour is the last."""
        given = {option: f"{value:g}" for option, value in setting.items()}
        changes = {**self.run.changes, **given}
        if neighbour := given.get("re3.last-neighbour"):
            changes["re3.first-neighbour"] = neighbour
        return self.run._replace(changes=changes, seed=FIRST_SEED, seeds=SEEDS)


def figure(
    name: str,
    grids: Mapping[str, Grid],
    learned: float | None = None,
    diagnostics: Sequence[str] = (),
) -> Callable[..., int]:
    """The command of a search, which writes table.csv.

    Args:
      name: name of its module.
      grids: of each row.
      learned: a return above this, at any evaluation, says that a seed has learned the task, and a
        column counts these; none by default.
      diagnostics: columns of train.csv whose means over a run and its seeds are in the table; empty
        for rows without a bonus.
    """

    def make(words: command.Words) -> command.Lines:
        given = {n: v for n in ("seeds", "steps") if (v := getattr(words, n)) is not None}
        tried = [(row, setting) for row in words.rows for setting in grids[row].settings()]
        runs = Runs(words.runs, words.jobs)
        wanted = [grids[row].run_of(setting)._replace(**given) for row, setting in tried]
        yield runs.state(wanted)
        if words.state:
            return
        folders = runs.ensure_all(wanted)
        found = [
            up_to(curves.load(grids[row].label, [folder]), run.steps)
            for (row, _), run, folder in zip(tried, wanted, folders, strict=True)
        ]
        words.out.mkdir(parents=True, exist_ok=True)
        described = [
            "; ".join(f"{option} {value:g}" for option, value in setting.items())
            for _, setting in tried
        ]
        before = {"row": [row for row, _ in tried], "setting": described}
        if learned is not None:
            seeds = [(curve.returns.max(axis=1) > learned).sum() for curve in found]
            before["learned"] = [str(int(number)) for number in seeds]
        before |= {
            column: [
                _mean(folder, column, curve.env_frames[-1]) if run.bonus != "none" else ""
                for run, folder, curve in zip(wanted, folders, found, strict=True)
            ]
            for column in diagnostics
        }
        path = words.out / "table.csv"
        curves.write_table(found, path, **before)
        yield path

    options: command.Options = {"--rows": command.some_of(grids)}
    return command.of(name, make, options | command.STATE | command.STEPS | command.OF_RUNS)


def _mean(folder: Path, column: str, end: int) -> str:
    """Mean over the rows of all seeds up to a frame."""
    of_seeds = curves.read(folder / "train.csv", column).values()
    values = [x for seed in of_seeds for frames, x in seed.items() if frames <= end]
    return curves.cell(float(np.nanmean(values)))
