"""How far distances between frames agree with those between true states, over seeds.

A seed has its own frames, disturbances and encoders, so intervals cover all of them. The scores of
each task and seed are saved as soon as they are known, and a later call goes on with the next seed:
delete them after a change of what is measured.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist  # type: ignore[import-untyped]

from experiments.figures import command, frames, similarity
from experiments.figures.frames import Frames
from experiments.figures.similarity import Distances, Ordered
from re3_jax.runs import curves, statistics
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.run_folder import write_json

KS = (1, 3, 5, 7, 9)
"""Of the paper's sensitivity analysis."""

ALL_TASKS = "all tasks"

MEASURES = "recall", "share_nearer"

OPTIONS: command.Options = frames.OPTIONS | {
    "--seeds": {"type": int, "default": 5, "help": "1 to SEEDS"},
    "--runs": command.OF_RUNS["--runs"],
}


class Score(NamedTuple):
    """The agreement of one representation of the frames of one task and seed."""

    task: str
    seed: int
    condition: str
    representation: str
    k: int
    recall: float
    share_nearer: float
    chance_recall: float


class Measured(NamedTuple):
    """Distances between frames, whose scores are averaged.

    Attributes:
      condition: of the frames, and what is asked of them if not the true states.
      representation: of each frame.
      distances: several of them, each between all frames.
      true: the distances that they should agree with; None for those between true states.
    """

    condition: str
    representation: str
    distances: Sequence[Distances]
    true: Distances | None = None


Measure = Callable[[Frames, int], Iterator[Measured]]
"""(frames, seed) -> what is scored, one after the other."""

Table = dict[tuple[str, str, str, int], Mapping[str, Float[np.ndarray, " seed"]]]
"""(task, condition, representation, k) -> a score's name -> its value for each seed."""


def table(name: str, words: command.Words, measure: Measure, baselines: Sequence[str]) -> Table:
    """The scores of all tasks and seeds, which are also written to the table of the figure `name`.

    Args:
      name: of the figure.
      words: values of `OPTIONS` and `--out`.
      measure: gives the distances.
      baselines: the representations to compare with.

    Raises:
      UsageError: `words` cannot be met, or no renderer works here.
    """
    if words.seeds < 1:
        raise UsageError(f"--seeds is {words.seeds}: give at least 1")
    frames.check(words, max(KS))
    with refusing(OSError):
        for folder in (words.out, words.runs / name):
            folder.mkdir(parents=True, exist_ok=True)
    found = by_seed(of_seeds(words.runs / name, words, measure))
    write(found, baselines, words.out / "table.csv")
    return found


def of_true_states(found: Frames) -> Ordered:
    """The frames of other episodes in the order of the distance between their true states."""
    return similarity.nearest(cdist(found.states, found.states), found.episodes)


def of_seeds(folder: Path, words: command.Words, measure: Measure) -> list[Score]:
    """The scores of all tasks and seeds; those in the folder are not computed again."""
    scores: list[Score] = []
    cells = list(product(dict.fromkeys(words.tasks), range(1, words.seeds + 1)))
    for number, (task, seed) in enumerate(cells, 1):
        label = f"{task}-{words.frames}_frames-{words.renderer}-seed{seed}"
        path = folder / f"{label}.json"

        def compute(task: str = task, seed: int = seed) -> Iterator[Score]:
            found = frames.collect(task, frames.config(words.renderer), words.frames, seed)
            return _scores(task, seed, found, measure(found, seed))

        said = f"{number} of {len(cells)}: {label}"
        scores += [Score(*row) for row in kept(path, said, compute)]
    return scores


def kept(path: Path, said: str, compute: Callable[[], Iterable[Any]]) -> list[Any]:
    """The rows in a file, which are computed and written if it is not there.

    Args:
      path: of the JSON file.
      said: begins the line that says how long it took.
      compute: gives the rows.
    """
    if not path.exists():
        began = time.monotonic()
        write_json(path, [*compute()])
        print(f"{said}, {time.monotonic() - began:.0f} s", flush=True)
    rows: list[Any] = json.loads(path.read_text())
    return rows


def _scores(task: str, seed: int, found: Frames, measured: Iterable[Measured]) -> Iterator[Score]:
    of_states = of_true_states(found)
    for condition, representation, alternatives, wanted in measured:
        orders = [similarity.nearest(each, found.episodes) for each in alternatives]
        true = of_states if wanted is None else similarity.nearest(wanted, found.episodes)
        for k in KS:
            recall, share = (
                float(np.mean([score(order, true, k) for order in orders]))
                for score in (similarity.recall, similarity.share_nearer)
            )
            chance = similarity.chance_recall(true, k)
            yield Score(task, seed, condition, representation, k, recall, share, chance)


def by_seed(scores: Sequence[Score]) -> Table:
    """The scores of each task, and their mean over several tasks as `ALL_TASKS`."""
    found: Table = {}
    tasks = list(dict.fromkeys(score.task for score in scores))
    names = *MEASURES, "chance_recall"
    for key in dict.fromkeys(score[2:5] for score in scores):
        of_tasks = [[s for s in scores if s.task == task and s[2:5] == key] for task in tasks]
        values = {n: np.array([[getattr(s, n) for s in each] for each in of_tasks]) for n in names}
        for at, task in enumerate(tasks):
            found[(task, *key)] = {n: value[at] for n, value in values.items()}
        if len(tasks) > 1:
            found[(ALL_TASKS, *key)] = {n: value.mean(axis=0) for n, value in values.items()}
    return found


def write(table: Table, baselines: Sequence[str], path: Path) -> None:
    """One row per task, condition, representation and k.

    `..._minus_BASELINE` is the difference from the score of that representation for the same task,
    condition and k, paired by seed. A cell is empty where one seed has no interval.
    """
    minus = [f"_minus_{baseline.replace(' ', '_')}" for baseline in baselines]
    parts = [f"{measure}{end}" for measure in MEASURES for end in ("", *minus)]
    columns = [f"{part}{end}" for part in parts for end in ("", "_low", "_high")]
    header = "task", "condition", "representation", "k", "seeds", "recall_chance", *columns
    rows = []
    for (task, condition, name, k), values in table.items():
        numbers: list[float] = []
        for measure in MEASURES:
            others = [table[task, condition, each, k][measure] for each in baselines]
            for other in (np.zeros_like(values[measure]), *others):
                numbers += map(float, statistics.mean_interval(values[measure] - other))
        cells = ["" if np.isnan(number) else f"{number:.4f}" for number in numbers]
        chance = f"{values['chance_recall'].mean():.4f}"
        rows.append([task, condition, name, k, len(values["recall"]), chance, *cells])
    curves.write_csv(path, header, rows)
