"""PPO with eight exploration bonuses, and without one, on hard tasks of MiniGrid: not in the paper.

    make figure FIG=minigrid_hard [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid_hard [--tasks doorkey_8x8] [--rows none re3] [--state]

Trains missing cells (a task and a row, all seeds in one program), resumes interrupted ones, and
writes curves.png, profiles.png, every cell's eval.csv, table.csv and tasks.csv. `--finished` draws
what is finished and trains nothing; `--state` only says in one line how far the whole is.

Settings and weights are those of `recommended`; `minigrid_hard_betas` searches the weights on other
seeds.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Float

from experiments.figures import command, rows
from experiments.figures.rows import Row
from experiments.figures.runs import Run, Runs
from re3_jax.runs import comparison, curves, labels, statistics
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.config import BonusName, PresetName
from re3_jax.runs.curves import Curve

TASKS = {
    "doorkey_8x8": "DoorKey-8x8",
    "multiroom_n6": "MultiRoom-N6",
    "keycorridor_s3r3": "KeyCorridorS3R3",
    "keycorridor_s4r3": "KeyCorridorS4R3",
    "obstructedmaze_2dl": "ObstructedMaze-2Dl",
}

BUDGETS = {
    "doorkey_8x8": 655_360,
    "multiroom_n6": 1_024_000,
    "keycorridor_s3r3": 1_024_000,
    "keycorridor_s4r3": 1_024_000,
    "obstructedmaze_2dl": 1_024_000,
}
"""Env frames of each seed; a twentieth of them is a whole number of updates."""

ROWS = "none", "re3", "vcse", "rnd", "icm", "noveld", "e3b", "ngu", "counts"
LABELS = {bonus: labels.of("ppo", bonus) for bonus in ROWS}

FIRST_SEED, SEEDS = 401, 10
"""Settings were tried on seeds 101 to 110, two weights of RE3 compared on 201 to 210, and weights
are searched on 301 and above."""

PANEL = 5.2
"""Inches of a panel's sides."""

EVALUATIONS, EPISODES = 20, 32
"""Of each seed; of one evaluation."""

REACHED, LEAST = 0.8, 0.1
"""The share of a task's best return that `frames_to_0.8` waits for, and the least best return: a
share of less says who was lucky in one episode."""


def weight(name: BonusName) -> str | None:
    """The option that weights a bonus; None for `none`."""
    groups = BONUSES[name].groups
    return f"{groups[0]}.beta" if groups else None


def run(task: str, name: BonusName, preset: PresetName) -> Run:
    """The run of a cell, with the preset's weight."""
    changes = {
        "evaluation.every-env-frames": str(BUDGETS[task] // EVALUATIONS),
        "evaluation.episodes": str(EPISODES),
    }
    sizes = SEEDS, BUDGETS[task]
    return Run(task, name, preset, *sizes, agent="ppo", changes=changes, seed=FIRST_SEED)


def frames_to(curve: Curve, height: float) -> Float[np.ndarray, " seed"]:
    """Env frames of each seed's first evaluation at `height` or above; infinity without one."""
    above = curve.returns >= height
    first = curve.env_frames[above.argmax(axis=1)].astype(float)
    return np.where(above.any(axis=1), first, np.inf)


def best_return(of_task: Sequence[Curve]) -> float:
    """The highest mean over seeds in any evaluation of any row."""
    return max(float(curve.returns.mean(axis=0).max()) for curve in of_task)


def _reaching(found: Mapping[tuple[str, str], Curve]) -> dict[str, list[str]]:
    """How many seeds reached 0.8 of the best return, and after how many frames more than half had.

    Empty on a task that no row learns.
    """
    seeds, frames = [], []
    for (task, _), curve in found.items():
        best = best_return([other for (where, _), other in found.items() if where == task])
        if best < LEAST:
            seeds.append("")
            frames.append("")
            continue
        first = frames_to(curve, REACHED * best)
        seeds.append(str(int(np.isfinite(first).sum())))
        median = float(np.quantile(first, 0.5, method="higher"))
        frames.append(f"{median:.0f}" if np.isfinite(median) else "")
    return {"seeds_to_0.8": seeds, "frames_to_0.8": frames}


def _seconds(found: Mapping[tuple[str, str], tuple[Curve, Path]]) -> dict[str, list[str]]:
    """Wall seconds of training and evaluation of all seeds of a cell, without compilation.

    None for a run that went on beyond the curve, because its seconds are of all of it.
    """
    columns: dict[str, list[str]] = {"train_seconds": [], "evaluation_seconds": []}
    for curve, folder in found.values():
        summary = json.loads((folder / "summary.json").read_text())
        is_longer = summary["env_frames"] > curve.env_frames[-1]
        for name, cells in columns.items():
            cells.append("" if is_longer else f"{summary[name]:.1f}")
    return columns


def _write_over_tasks(path: Path, found: Mapping[tuple[str, str], Curve]) -> None:
    """The IQM over all tasks and seeds of each row that has a run of every drawn task."""
    tasks, lines = {task for task, _ in found}, []
    for name, label in LABELS.items():
        finals = [curve.returns[:, -1] for (_, row), curve in found.items() if row == name]
        if len(finals) == len(tasks) and len({len(final) for final in finals}) == 1:
            scores = np.stack(finals)
            low, high = statistics.bootstrap_interval(statistics.interquartile_mean, scores)
            iqm = statistics.interquartile_mean(scores)
            lines.append([label, len(tasks), *(f"{float(x):.6g}" for x in (iqm, low, high))])
    header = ["label", "tasks", "final_return_iqm", "final_return_iqm_low", "final_return_iqm_high"]
    curves.write_csv(path, header, lines)


def _make(words: command.Words) -> command.Lines:
    runs = Runs(words.runs, words.jobs)
    pairs = [(task, name) for task in words.tasks for name in words.rows]
    given = {n: v for n in ("seeds", "steps") if (v := getattr(words, n)) is not None}
    wanted = {pair: run(*pair, words.preset)._replace(**given) for pair in pairs}
    yield runs.state(wanted.values())
    if words.state:
        return
    names = {f"{task}-{name}": (task, name) for task, name in pairs}
    loaded = rows.load(
        words, [Row(LABELS[pair[1]], file, wanted[pair]) for file, pair in names.items()]
    )
    found = {names[file]: curve for file, curve in loaded.items()}
    panels = rows.by_task(found, TASKS)
    labelled = partial(curves.draw_axes, labels=[*LABELS.values()])
    for file, panel in (("curves", labelled), ("profiles", comparison.draw_profiles)):
        picture = curves.draw_panels(panels, (PANEL, PANEL), across=3, panel=panel)
        rows.legend_below(picture, 2 * round(picture.get_figwidth() / PANEL))
        curves.note_missing(picture, len(wanted) - len(found), len(wanted))
        picture.savefig(words.out / f"{file}.png")
    curves.write_table(
        [*found.values()],
        words.out / "table.csv",
        task=[task for task, _ in found],
        **_reaching(found),
        **_seconds({pair: (one, runs.folder_of(wanted[pair])) for pair, one in found.items()}),
        **rows.better_than("none", found),
        **rows.better_than("re3", found),
    )
    _write_over_tasks(words.out / "tasks.csv", found)
    yield words.out / "curves.png"


OPTIONS: command.Options = {
    "--tasks": command.some_of(TASKS),
    "--rows": command.some_of(LABELS),
    "--preset": {"default": "recommended", "choices": get_args(PresetName)},
}

OPTIONS |= command.STATE | command.FINISHED | command.STEPS | command.OF_RUNS

main = command.of("minigrid_hard", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
