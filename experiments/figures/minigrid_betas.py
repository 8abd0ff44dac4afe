"""The search of beta behind the MiniGrid figure, on seeds that the figure does not use.

    make figure FIG=minigrid_betas [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid_betas [--tasks TASK ...] [--rows ROW ...]

For each task and each row with a beta, the paper's nine values. All nine are trained for two
fifths of the task's budget, and the three best of them to its end: a beta that is slow to begin
and best in the end can be missed. Best is the largest area under the evaluation curve, mean over
seeds. Writes a JSON per preset, which `minigrid` reads; a search of some tasks or rows leaves the
others in it as they were.
"""

import argparse
import json
import math
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments import run_folder
from experiments.errors import UsageError
from experiments.figures import curves, minigrid_rows, rows
from experiments.figures.jobs import Jobs
from experiments.figures.minigrid_rows import ROWS, TASKS
from experiments.presets import minigrid

BETAS = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1)
"""Appendix, "Details on MiniGrid Experiments"."""

RUNGS = ((0.4, 9), (1.0, 3))
"""Share of the budget, and how many of the best betas are trained so far."""

FIRST_SEED = 101
SEARCHED = [name for name, row in ROWS.items() if row.beta]
LEAST_EVALUATIONS = 15
"""In a whole budget: enough for an area, and fewer than the figure's, which take their time."""


EPISODES = 30
"""An evaluation of 100 episodes, the figure's, takes longer than the training in between."""


def search(name: str, task: str, preset: str, seeds: int, runs: Path, jobs: Jobs) -> dict[str, Any]:
    """The best beta of one row on one task, and every score on the way."""
    budget = minigrid.BUDGETS[TASKS[task]]
    figures = minigrid.TASKS[TASKS[task]]["evaluation.every_env_frames"]
    every = max(1, budget // figures // LEAST_EVALUATIONS) * figures

    def score(beta: float, steps: int) -> float:
        changes = {"evaluation.every-env-frames": str(every), "evaluation.episodes": str(EPISODES)}
        folder = minigrid_rows.ensure(
            ROWS[name],
            task,
            preset,
            seeds=seeds,
            first_seed=FIRST_SEED,
            steps=steps,
            beta=beta,
            changes=changes,
            runs=runs,
            jobs=jobs,
        )
        return area(folder, steps)

    left, report = list(BETAS), []
    for share, kept in RUNGS:
        left = left[:kept]
        steps = budget if share == 1 else every * math.ceil(share * budget / every)
        scores = dict(zip(left, jobs.map(partial(score, steps=steps), left), strict=True))
        left.sort(key=scores.__getitem__, reverse=True)
        report.append(
            {"env_frames": steps, "scores": {f"{beta:g}": round(scores[beta], 5) for beta in left}}
        )
    return {"beta": left[0], "seeds": list(range(FIRST_SEED, FIRST_SEED + seeds)), "rungs": report}


def area(folder: Path, env_frames: int) -> float:
    """Mean height of a run's evaluation curve up to about `env_frames`, mean over seeds."""
    curve = curves.load("", [folder])
    # A run that was once trained further counts as far as this rung goes.
    last = int(np.searchsorted(curve.env_frames, env_frames)) + 1
    frames, heights = curve.env_frames[:last], curve.returns.mean(axis=0)[:last]
    return float(np.trapezoid(heights, frames) / (frames[-1] - frames[0]))


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.minigrid_betas")
    parser.add_argument("--preset", default="recommended")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--rows", nargs="+", default=SEARCHED, choices=SEARCHED)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on its cores")
    parser.add_argument("--runs", type=Path, default=rows.RUNS)
    parser.add_argument("--out", type=Path, default=minigrid_rows.BETAS)
    words = parser.parse_args(argv)
    words.out.mkdir(parents=True, exist_ok=True)
    path = words.out / f"{words.preset}.json"
    try:
        minigrid_rows.searched_betas(words.preset, words.out)
        searched = json.loads(path.read_text())["searched"] if path.exists() else {}
        jobs, writing = Jobs(words.jobs), threading.Lock()

        def find(cell: tuple[str, str]) -> None:
            task, name = cell
            found = search(name, task, words.preset, words.seeds, words.runs, jobs)
            with writing:
                searched.setdefault(task, {})[name] = found
                run_folder.write_json(path, {"preset": words.preset, "searched": searched})
                print(f"{task}, {ROWS[name].label}: beta {found['beta']:g}", flush=True)

        jobs.map(find, [(task, name) for task in words.tasks for name in words.rows])
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
