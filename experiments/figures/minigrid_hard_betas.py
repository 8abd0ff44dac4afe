"""The search of weights behind `minigrid_hard`, on seeds that the figure does not use.

    make figure FIG=minigrid_hard_betas [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid_hard_betas [--tasks TASK ...] [--rows ROW ...]

Every bonus has the same search on a task (committed: that on DoorKey-8x8): nine weights are trained
for half of the figure's budget, and further ones beyond an end of them for as long as the best is
at that end; the best three are trained on to the figure's budget. The best has the largest area
under the evaluation curve, mean over seeds. Cells that are in the file are not searched again. What
is found goes into `re3_jax/runs/presets/ppo.py` by hand, and a test compares the two.

A search over less misleads: five weights, a decade apart, for a quarter and half of 327,680 frames
chose for RE3 on DoorKey-8x8 one that never learns it (`results/ppo/doorkey_8x8_weights.csv`).
"""

import threading
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, get_args

from experiments.figures import command, minigrid_hard
from experiments.figures.minigrid_betas import area, halved, searched
from experiments.figures.minigrid_hard import BUDGETS, EVALUATIONS, LABELS, TASKS
from experiments.figures.runs import Run, Runs
from re3_jax.runs import run_folder
from re3_jax.runs.config import PresetName

BETAS = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1, 1.0)
"""Of every bonus, because nothing else would be the same effort: their sizes differ widely."""

LEAST, MOST = 1e-7, 100.0
"""Beyond them nothing is searched: less is no bonus, and more drowns any reward."""

EVALUATIONS_OF_ALL, KEPT = 10, 3
"""Evaluations, of the figure's 20, to which every weight is trained, and how many go on."""

FIRST_SEED, SEEDS = 301, 5


def search(each: Run, option: str, seeds: int, runs: Runs) -> dict[str, Any]:
    """The best weight of a bonus, and the scores of all weights tried.

    Args:
      each: the run of the figure.
      option: its option that is the weight.
      seeds: how many, from `FIRST_SEED` on.
      runs: where they are trained.
    """

    @cache
    def score(steps: int, beta: float) -> float:
        changes = {**each.changes, option: f"{beta:g}"}
        of_search = each._replace(changes=changes, seeds=seeds, seed=FIRST_SEED, steps=steps)
        return area(runs.ensure(of_search), steps)

    first = each.steps // EVALUATIONS * EVALUATIONS_OF_ALL
    betas = widened(partial(score, first), runs)
    rungs = (first, len(betas)), (each.steps, KEPT)
    best, report = halved(betas, rungs, score, runs)
    return {"beta": best, "seeds": list(range(FIRST_SEED, FIRST_SEED + seeds)), "rungs": report}


def widened(score: Callable[[float], float], runs: Runs) -> tuple[float, ...]:
    """`BETAS`, ascending, and more of that kind until the best of all is at no end of them.

    Args:
      score: of a weight. If all are equal, nothing is known, and none is added.
      runs: how many are trained at a time.
    """
    scores = dict(zip(BETAS, runs.map(score, BETAS), strict=True))
    while len(set(scores.values())) > 1:
        best, least, most = max(scores, key=scores.__getitem__), min(scores), max(scores)
        if best == least > LEAST:
            beyond = _next(least, up=False)
        elif best == most < MOST:
            beyond = _next(most, up=True)
        else:
            break
        scores[beyond] = score(beyond)
    return tuple(sorted(scores))


def _next(beta: float, up: bool) -> float:
    """The neighbour of a weight among ..., 0.1, 0.5, 1, 5, 10, ..."""
    digit, exponent = f"{beta:.0e}".split("e")
    if digit == "5":
        return float(f"1e{int(exponent) + up}")
    return float(f"5e{int(exponent) - (not up)}")


def env_frames(task: str, seeds: int) -> int:
    """Of the search of one bonus on one task, all seeds together, if no weight is added."""
    later = KEPT * (EVALUATIONS - EVALUATIONS_OF_ALL)
    evaluations = len(BETAS) * EVALUATIONS_OF_ALL + later
    return evaluations * (BUDGETS[task] // EVALUATIONS) * seeds


def _make(words: command.Words) -> command.Lines:
    runs, path = Runs(words.runs, words.jobs), words.out / f"{words.preset}.json"
    results, writing, began = searched(path), threading.Lock(), time.monotonic()
    words.out.mkdir(parents=True, exist_ok=True)
    seeds = words.seeds or SEEDS
    cells = [(task, name) for task in words.tasks for name in words.rows]
    left = [(task, name) for task, name in cells if name not in results.get(task, {})]
    trained = 0

    def find(cell: tuple[str, str]) -> None:
        nonlocal trained
        task, name = cell
        option = minigrid_hard.weight(name)
        assert option is not None
        found = search(minigrid_hard.run(task, name, words.preset), option, seeds, runs)
        with writing:
            results.setdefault(task, {})[name] = found
            run_folder.write_json(path, {"preset": words.preset, "searched": results})
            trained += env_frames(task, seeds)
            print(f"{task}, {LABELS[name]}: beta {found['beta']:g}; {state()}", flush=True)

    def state() -> str:
        missing = [(task, name) for task, name in left if name not in results.get(task, {})]
        frames = sum(env_frames(task, seeds) for task, _ in missing)
        hours = frames / trained * (time.monotonic() - began) / 3600 if trained else None
        done, running = len(cells) - len(missing), min(runs.at_once, len(missing))
        return (
            f"{done} of {len(cells)} cells done, {running} running, "
            f"{len(missing) - running} left"
            + (f", about {hours:.1f} hours to go" if hours is not None else "")
        )

    if left:
        yield state()
    runs.map(find, left)
    yield path


OPTIONS: command.Options = {
    "--tasks": command.some_of(TASKS),
    "--rows": command.some_of([name for name in LABELS if name != "none"]),
    "--preset": {"default": "recommended", "choices": get_args(PresetName)},
}

main = command.of("minigrid_hard_betas", _make, OPTIONS | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
