"""The search of weights behind `minigrid_hard`, on seeds that the figure does not use.

    make figure FIG=minigrid_hard_betas [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid_hard_betas [--tasks TASK ...] [--rows ROW ...]

Every bonus has the same effort on every task: nine weights are trained for half of the figure's
budget, and the best three on to its end. The best has the largest area under the evaluation curve,
mean over seeds. Cells that are in the file are not searched again. What is found goes into
`re3_jax/runs/presets/ppo.py` by hand, and a test compares the two.

A search over less misleads: five weights, a decade apart, for a quarter and half of 327,680 frames
chose for RE3 on DoorKey-8x8 one that never learns it (`results/ppo/doorkey_8x8_weights.csv`).
"""

import threading
import time
from typing import Any, get_args

from experiments.figures import command, minigrid_hard
from experiments.figures.minigrid_betas import area, halved, searched
from experiments.figures.minigrid_hard import BUDGETS, EVALUATIONS, LABELS, TASKS
from experiments.figures.runs import Runs
from re3_jax.runs import run_folder
from re3_jax.runs.config import PresetName

BETAS = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1, 1.0)
"""Of every bonus, because nothing else would be the same effort: their sizes differ widely."""

RUNGS = ((10, 9), (20, 3))
"""Evaluations, of the figure's 20, and how many of the best weights are trained to them."""

FIRST_SEED, SEEDS = 301, 5


def search(task: str, name: str, preset: PresetName, seeds: int, runs: Runs) -> dict[str, Any]:
    """The best weight of one bonus on one task, and the scores of all weights tried."""
    each, option = minigrid_hard.run(task, name, preset), minigrid_hard.weight(name)
    assert option is not None

    def score(steps: int, beta: float) -> float:
        changes = {**each.changes, option: f"{beta:g}"}
        of_search = each._replace(changes=changes, seeds=seeds, seed=FIRST_SEED, steps=steps)
        return area(runs.ensure(of_search), steps)

    rungs = [(BUDGETS[task] // EVALUATIONS * number, kept) for number, kept in RUNGS]
    best, report = halved(BETAS, rungs, score, runs)
    return {"beta": best, "seeds": list(range(FIRST_SEED, FIRST_SEED + seeds)), "rungs": report}


def env_frames(task: str, seeds: int) -> int:
    """Of the search of one bonus on one task, all seeds together."""
    before, total = 0, 0
    for number, kept in RUNGS:
        total += kept * (number - before)
        before = number
    return total * (BUDGETS[task] // EVALUATIONS) * seeds


def _make(words: command.Words) -> command.Lines:
    runs, path = Runs(words.runs, words.jobs), words.out / f"{words.preset}.json"
    results, writing, began = searched(path), threading.Lock(), time.monotonic()
    words.out.mkdir(parents=True, exist_ok=True)
    seeds = words.seeds or SEEDS
    cells = [pair for pair in minigrid_hard.cells(words) if pair[1] != "none"]
    left = [(task, name) for task, name in cells if name not in results.get(task, {})]
    trained = 0

    def find(cell: tuple[str, str]) -> None:
        nonlocal trained
        task, name = cell
        found = search(task, name, words.preset, seeds, runs)
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
