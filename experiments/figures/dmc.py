"""The paper's figures of DeepMind Control: an agent with RE3 and without, a panel a task.

    make figure FIG=dmc
    python -m experiments.figures.dmc [RUN_DIR ...] [--tasks TASK ...] [--reference FILE.csv]

Draws the runs in the given folders; without any, runs what is missing and goes on with what was
cut off. Runs of the same task, agent, bonus and preset are pooled. Writes curves.png, table.csv
and every run's eval.csv. A reference has the columns env, seed, step (in env frames) and
episode_reward, and is drawn up to where the runs end.
"""

import argparse
import csv
import json
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast, get_args

import numpy as np
from matplotlib.figure import Figure

from experiments import run_folder
from experiments.config import PresetName, RunConfig
from experiments.errors import UsageError
from experiments.figures import curves, rows
from experiments.figures.curves import Curve
from experiments.presets import dmc

AGENTS = {"rad": "RAD", "drq": "DrQ", "dreamer": "Dreamer"}
BONUSES = {"none": "", "re3": " + RE3"}
PANELS_PER_ROW = 3


class Kind(NamedTuple):
    """What runs of one curve have in common."""

    task: str
    agent: str
    bonus: str
    preset: str


def kind(folder: Path) -> Kind:
    """What the run in a folder is.

    Raises:
      UsageError: there is no run of one of `AGENTS` with RE3 or without.
    """
    try:
        config = json.loads((folder / run_folder.CONFIG).read_text())["config"]
        task = config["env"].removeprefix("dmc:")
        found = Kind(task, config["agent"], config["bonus"], config["preset"])
    except (OSError, ValueError, LookupError, TypeError):
        raise UsageError(f"{folder} holds no run: give folders with a config.json") from None
    if found.agent not in AGENTS or found.bonus not in BONUSES:
        raise UsageError(
            f"the run in {folder} is of {found.agent} with {found.bonus}: this figure draws "
            f"{', '.join(AGENTS)} with {' and '.join(BONUSES)}"
        )
    return found


def load_reference(path: Path) -> dict[str, Curve]:
    """Curves of a reference CSV by task, at the steps at which every seed was evaluated.

    Raises:
      UsageError: it cannot be read, or has other columns.
    """
    series: dict[str, dict[str, dict[int, float]]] = {}
    try:
        with path.open(newline="") as lines:
            for row in csv.DictReader(lines):
                points = series.setdefault(row["env"], {}).setdefault(row["seed"], {})
                points[int(float(row["step"]))] = float(row["episode_reward"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"{path} cannot be read as a reference ({type(error).__name__}: {error}): give a CSV "
            "with the columns env, seed, step and episode_reward"
        ) from None
    found = {}
    for task, seeds in series.items():
        frames = sorted(set.intersection(*map(set, seeds.values())))
        returns = [[points[frame] for frame in frames] for points in seeds.values()]
        found[task] = Curve(path.stem, np.asarray(frames), np.asarray(returns))
    return found


def preset_of(task: str, name: str, agent: str) -> RunConfig:
    """The preset of a task.

    Raises:
      UsageError: there is no such task.
    """
    try:
        return dmc.preset(task, cast(PresetName, name), agent)
    except ValueError as error:
        raise UsageError(str(error)) from None


def panels(folders: Sequence[Path], reference: dict[str, Curve]) -> dict[str, list[Curve]]:
    """Task -> its curves: those without a bonus first, the reference last."""
    pooled: dict[Kind, list[Path]] = {}
    for folder in folders:
        pooled.setdefault(kind(folder), []).append(folder)
    several = len({one.preset for one in pooled}) > 1
    found: dict[str, list[Curve]] = {}
    order = list(AGENTS)
    for one in sorted(
        pooled, key=lambda one: (order.index(one.agent), one.bonus == "re3", one.preset)
    ):
        label = AGENTS[one.agent] + BONUSES[one.bonus] + several * f", {one.preset}"
        found.setdefault(one.task, []).append(curves.load(label, pooled[one]))
    for task, drawn in found.items():
        if task in reference:
            theirs = reference[task]
            until = theirs.env_frames <= max(curve.env_frames[-1] for curve in drawn)
            if until.any():
                returns = theirs.returns[:, until]
                drawn.append(Curve(theirs.label, theirs.env_frames[until], returns))
    return found


def draw(drawn: dict[str, list[Curve]], out: Path) -> None:
    """One panel a task; and the table under all of them."""
    across = min(PANELS_PER_ROW, len(drawn))
    down = math.ceil(len(drawn) / across)
    figure = Figure(figsize=(4.6 * across, 3.8 * down), dpi=130, layout="constrained")
    table = [["task", *curves.TABLE_COLUMNS]]
    places = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (task, panel) in zip(places, drawn.items(), strict=False):
        curves.draw_axes(axes, panel, task)
        table += [[task, *row] for row in curves.table_rows(panel)]
    for axes in places[len(drawn) :]:
        axes.set_visible(False)
    figure.savefig(out / "curves.png")
    with (out / "table.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows(table)


def copy_evaluations(folders: Sequence[Path], out: Path) -> None:
    """Every run's eval.csv, named after its folder.

    Raises:
      UsageError: two folders have the same name.
    """
    names = [folder.resolve().name for folder in folders]
    for folder, name in zip(folders, names, strict=True):
        if names.count(name) > 1:
            raise UsageError(f"two of the folders are called {name}: rename one")
        shutil.copyfile(folder / "eval.csv", out / f"{name}.csv")


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.dmc")
    parser.add_argument("folders", nargs="*", type=Path, metavar="RUN_DIR")
    parser.add_argument("--tasks", nargs="+", default=list(dmc.MAIN_TASKS))
    parser.add_argument("--agent", default="rad", choices=list(AGENTS))
    parser.add_argument("--preset", default="released", choices=get_args(PresetName))
    parser.add_argument("--seeds", type=int, help="by default as many as the preset has")
    parser.add_argument("--steps", type=int, help="env frames; by default the preset's")
    parser.add_argument("--reference", type=Path, metavar="FILE.csv")
    parser.add_argument("--runs", type=Path, default=rows.RUNS)
    parser.add_argument("--out", type=Path, default=Path("results/dmc"))
    words = parser.parse_args(argv)
    folders = words.folders
    try:
        reference = load_reference(words.reference) if words.reference else {}
        if not folders:
            for task in words.tasks:
                preset = preset_of(task, words.preset, words.agent)
                folders += [
                    rows.ensure(
                        task,
                        bonus,
                        words.preset,
                        agent=words.agent,
                        seeds=words.seeds or preset.seeds,
                        steps=words.steps or preset.steps,
                        runs=words.runs,
                    )
                    for bonus in BONUSES
                ]
        drawn = panels(folders, reference)
        words.out.mkdir(parents=True, exist_ok=True)
        copy_evaluations(folders, words.out)
        draw(drawn, words.out)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(words.out / "curves.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
