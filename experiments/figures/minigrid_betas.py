"""The search of beta behind the MiniGrid figure, on seeds that the figure does not use.

    make figure FIG=minigrid_betas [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid_betas [--tasks TASK ...] [--rows ROW ...]

For each task and each row with a beta, the search tries the paper's nine values. It trains all nine
for two fifths of the task's budget, and the best three to its end; it can miss a beta that starts
slowly and ends best. The best has the largest area under the evaluation curve, mean over seeds.
Writes one JSON per preset; a search of some tasks or rows keeps the others. What it finds goes into
`re3_jax/runs/presets/minigrid.py` by hand, and a test compares the two.
"""

import json
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.figures import command
from experiments.figures.minigrid import TASKS, VARIANTS
from experiments.figures.rows import up_to
from experiments.figures.runs import Runs
from re3_jax.runs import curves, run_folder
from re3_jax.runs.config import PresetName
from re3_jax.runs.errors import UsageError
from re3_jax.runs.presets.minigrid import BUDGETS
from re3_jax.runs.presets.minigrid import TASKS as ROWS

BETAS = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1)
"""Appendix, "Details on MiniGrid Experiments"."""

RUNGS = ((0.4, 9), (1.0, 3))
"""Share of the budget, and how many of the best betas are trained to it."""

FIRST_SEED = 101
WITH_BETA = [name for name, row in VARIANTS.items() if row.beta]
LEAST_EVALUATIONS = 15
"""Per whole budget: enough for an area, and fewer than the figure's, which take long."""

EPISODES = 30
"""The figure's 100 episodes would take longer than the training between evaluations."""


def search(name: str, task: str, preset: PresetName, seeds: int, runs: Runs) -> dict[str, Any]:
    """The best beta of one row on one task, and the scores of all betas tried."""
    budget, figures = BUDGETS[TASKS[task]], ROWS[TASKS[task]]["evaluation.every_env_frames"]
    every = max(1, budget // figures // LEAST_EVALUATIONS) * figures
    changes = {"evaluation.every-env-frames": str(every), "evaluation.episodes": str(EPISODES)}

    def score(steps: int, beta: float) -> float:
        run = VARIANTS[name].run(task, preset, beta)
        run = run._replace(seeds=seeds, steps=steps, seed=FIRST_SEED)
        return area(runs.ensure(run._replace(changes={**changes, **run.changes})), steps)

    rungs = [
        (budget if share == 1 else every * math.ceil(share * budget / every), kept)
        for share, kept in RUNGS
    ]
    best, report = halved(BETAS, rungs, score, runs)
    return {"beta": best, "seeds": list(range(FIRST_SEED, FIRST_SEED + seeds)), "rungs": report}


def halved(
    betas: Sequence[float],
    rungs: Sequence[tuple[int, int]],
    score: Callable[[int, float], float],
    runs: Runs,
) -> tuple[float, list[dict[str, Any]]]:
    """The best of some betas, and a report of each rung.

    Equal scores, as when none has seen a reward, say nothing: then the beta nearest to the middle
    of the list counts, and not the first, which hardly pays a bonus.

    Args:
      betas: all that are tried, ascending.
      rungs: env frames, and how many of the best betas so far are trained to them.
      score: (env frames, beta) -> what should be large.
      runs: how many are trained at a time.
    """
    left, report = list(betas), []
    for steps, kept in rungs:
        left = left[:kept]
        of_rung = runs.map(partial(score, steps), left)
        scores = dict(zip(left, of_rung, strict=True))
        left.sort(key=lambda beta: abs(betas.index(beta) - len(betas) // 2))
        left.sort(key=scores.__getitem__, reverse=True)
        rounded = {f"{beta:g}": round(scores[beta], 5) for beta in left}
        tied = sum(score == scores[left[0]] for score in scores.values())
        report.append({"env_frames": steps, "scores": rounded, "equally_good": tied})
    return left[0], report


def area(folder: Path, env_frames: int) -> float:
    """`curves.area` of a run's evaluations up to about `env_frames`."""
    # A run that was already trained further counts up to this rung only.
    return curves.area(up_to(curves.load("", [folder]), env_frames))


def searched(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Task -> row -> what an earlier search wrote to this file; empty if there was none.

    Raises:
      UsageError: a search did not write the file.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())["searched"]
        for of_task in found.values():
            for result in of_task.values():
                float(result["beta"])
        return found
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} does not hold searched betas ({type(error).__name__}: {error}): "
            f"remove it, or choose another folder with --out"
        ) from None


def _make(words: command.Words) -> command.Lines:
    runs, path = Runs(words.runs, words.jobs), words.out / f"{words.preset}.json"
    results = searched(path)
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
