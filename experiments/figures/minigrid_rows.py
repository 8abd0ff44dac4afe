"""The rows of the paper's MiniGrid figure: what each trains on, and where its beta comes from."""

import json
from pathlib import Path
from typing import NamedTuple

from experiments.config import BonusName, PresetName, flatten
from experiments.errors import UsageError
from experiments.figures import rows
from experiments.figures.jobs import ONE_AT_A_TIME, Jobs
from experiments.resolve import resolve

TASKS = {"empty_16x16": "Empty-16x16", "doorkey_6x6": "DoorKey-6x6", "doorkey_8x8": "DoorKey-8x8"}
"""Tasks by bare name, and their rows in the paper's table."""

PRETRAINING_TASK = "empty_16x16"
PRETRAINING_FRAMES = 100_000
"""Where, and for how many env frames, the rows called PT train on the bonus alone."""

BETAS = Path("results/minigrid_betas")
"""What `minigrid_betas` found, one JSON a preset."""


class Row(NamedTuple):
    """One curve in every panel.

    Attributes:
      label: its name in the figure.
      bonus: the intrinsic reward beside the task's.
      beta: the option that weighs it, if it has one.
      pretraining: the bonus of the run it starts from, if it starts from one.
    """

    label: str
    bonus: BonusName
    beta: str | None = None
    pretraining: BonusName | None = None


ROWS = {
    "none": Row("A2C", "none"),
    "re3": Row("A2C + RE3", "re3", beta="re3.beta"),
    "rnd": Row("A2C + RND", "rnd", beta="rnd.beta"),
    "icm": Row("A2C + ICM", "icm", beta="icm.beta"),
    "re3_pt": Row("A2C + RE3 + PT", "re3", beta="re3.beta", pretraining="re3"),
    # Without a bonus while it is fine-tuned, as the paper has it (after Liu and Abbeel, 2021).
    "contrastive_pt": Row("A2C + SE w/ Contrastive + PT", "none", pretraining="contrastive"),
}


def ensure(
    row: Row,
    task: str,
    preset: str,
    *,
    seeds: int,
    first_seed: int = 1,
    steps: int,
    beta: float | None = None,
    changes: dict[str, str] | None = None,
    runs: Path = rows.RUNS,
    jobs: Jobs = ONE_AT_A_TIME,
) -> Path:
    """The folder of a finished run of a row, its pre-training run first.

    All rows of one `pretraining` start from the same run, seed by seed.

    Args:
      row: the row.
      task: task by bare name.
      preset: preset.
      seeds: number of seeds.
      first_seed: the first of them.
      steps: env frames per seed, those of pre-training not counted.
      beta: weight of the bonus; by default the preset's.
      changes: further options, without the leading dashes.
      runs: folder of all runs.
      jobs: what starts the processes.

    Raises:
      UsageError or SystemExit: as `rows.ensure`.
    """
    changes = dict(changes or {})
    if first_seed != 1:
        changes["seed"] = str(first_seed)
    if row.beta and beta is not None:
        changes[row.beta] = f"{beta:g}"
    if row.pretraining:
        options = {"pretrain": str(PRETRAINING_FRAMES)}
        if first_seed != 1:
            options["seed"] = str(first_seed)
        changes["init"] = str(
            rows.ensure(
                PRETRAINING_TASK,
                row.pretraining,
                preset,
                seeds=seeds,
                steps=PRETRAINING_FRAMES,
                changes=options,
                runs=runs,
                jobs=jobs,
            )
        )
    return rows.ensure(
        task, row.bonus, preset, seeds=seeds, steps=steps, changes=changes, runs=runs, jobs=jobs
    )


def beta_of(
    name: str, task: str, preset: PresetName, searched: dict[str, dict[str, float]]
) -> float | None:
    """The weight of a row's bonus: the one that was searched or the preset's; None without one."""
    row = ROWS[name]
    if row.beta is None or name in searched.get(task, {}):
        return searched.get(task, {}).get(name)
    config = resolve(task, bonus=row.bonus, preset=preset, fine_tunes=row.pretraining is not None)
    return float(flatten(config)[row.beta])


def searched_betas(preset: str, folder: Path = BETAS) -> dict[str, dict[str, float]]:
    """Task -> row -> the best beta that `minigrid_betas` found; empty if it has not run.

    Raises:
      UsageError: the file is not one that it wrote.
    """
    path = folder / f"{preset}.json"
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())["searched"]
        return {
            task: {row: float(result["beta"]) for row, result in of_task.items()}
            for task, of_task in found.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} does not hold searched betas ({type(error).__name__}: {error}): "
            f"remove it and run make figure FIG=minigrid_betas"
        ) from None
