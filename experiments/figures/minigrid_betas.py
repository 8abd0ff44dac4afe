"""The search of beta behind the MiniGrid figure, on seeds that the figure does not use.

    make figure FIG=minigrid_betas [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid_betas [--tasks TASK ...] [--rows ROW ...]

For each task and each row with a beta, the paper's nine values. All nine are trained for two
fifths of the task's budget, and the three best of them to its end: a beta that is slow to begin
and best in the end can be missed. Best is the largest area under the evaluation curve, mean over
seeds. Writes a JSON per preset, which `minigrid` reads; a search of some tasks or rows leaves the
others in it as they were.
"""

import math
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments import run_folder
from experiments.figures import command, curves
from experiments.figures.curves import Curve
from experiments.figures.minigrid import TASKS, VARIANTS, searched
from experiments.figures.runs import Runs
from experiments.presets.minigrid import BUDGETS
from experiments.presets.minigrid import TASKS as ROWS

BETAS = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1)
"""Appendix, "Details on MiniGrid Experiments"."""

RUNGS = ((0.4, 9), (1.0, 3))
"""Share of the budget, and how many of the best betas are trained so far."""

FIRST_SEED = 101
WITH_BETA = [name for name, row in VARIANTS.items() if row.beta]
LEAST_EVALUATIONS = 15
"""In a whole budget: enough for an area, and fewer than the figure's, which take their time."""

EPISODES = 30
"""An evaluation of 100 episodes, the figure's, takes longer than the training in between."""


def search(name: str, task: str, preset: str, seeds: int, runs: Runs) -> dict[str, Any]:
    """The best beta of one row on one task, and every score on the way."""
    budget, figures = BUDGETS[TASKS[task]], ROWS[TASKS[task]]["evaluation.every_env_frames"]
    every = max(1, budget // figures // LEAST_EVALUATIONS) * figures
    changes = {"evaluation.every-env-frames": str(every), "evaluation.episodes": str(EPISODES)}

    def score(beta: float, steps: int) -> float:
        run = VARIANTS[name].run(task, preset, beta)
        run = run._replace(seeds=seeds, steps=steps, seed=FIRST_SEED)
        return area(runs.ensure(run._replace(changes={**changes, **run.changes})), steps)

    left, report = list(BETAS), []
    for share, kept in RUNGS:
        left = left[:kept]
        steps = budget if share == 1 else every * math.ceil(share * budget / every)
        scores = dict(zip(left, runs.map(partial(score, steps=steps), left), strict=True))
        left.sort(key=scores.__getitem__, reverse=True)
        report.append(
            {"env_frames": steps, "scores": {f"{beta:g}": round(scores[beta], 5) for beta in left}}
        )
    return {"beta": left[0], "seeds": list(range(FIRST_SEED, FIRST_SEED + seeds)), "rungs": report}


def area(folder: Path, env_frames: int) -> float:
    """`curves.area` of a run's evaluations up to about `env_frames`."""
    curve = curves.load("", [folder])
    # A run that was once trained further counts as far as this rung goes.
    last = int(np.searchsorted(curve.env_frames, env_frames)) + 1
    return curves.area(Curve("", curve.env_frames[:last], curve.returns[:, :last]))


def _make(words: command.Words) -> command.Lines:
    runs, path = Runs(words.runs, words.jobs), words.out / f"{words.preset}.json"
    results = searched(words.preset, words.out)
    words.out.mkdir(parents=True, exist_ok=True)
    writing = threading.Lock()

    def find(cell: tuple[str, str]) -> None:
        task, name = cell
        found = search(name, task, words.preset, words.seeds, runs)
        with writing:
            results.setdefault(task, {})[name] = found
            run_folder.write_json(path, {"preset": words.preset, "searched": results})
            print(f"{task}, {VARIANTS[name].label}: beta {found['beta']:g}", flush=True)

    runs.map(find, [(task, name) for task in words.tasks for name in words.rows])
    yield path


OPTIONS: command.Options = {
    "--preset": {"default": "recommended"},
    "--tasks": command.some_of(TASKS),
    "--rows": command.some_of(WITH_BETA),
    "--seeds": {"type": int, "default": 3},
}

main = command.of("minigrid_betas", _make, command.OF_RUNS | OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
