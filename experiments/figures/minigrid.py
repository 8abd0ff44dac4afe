"""The paper's MiniGrid figure: A2C with and without exploration bonuses and pre-training.

    make figure FIG=minigrid [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid [--presets recommended] [--rows none re3] [--seeds 30]

Trains missing runs, resumes interrupted ones, and writes, for each preset, a picture with one panel
per task and a table, with every run's eval.csv beside them; `--finished` draws what is finished and
trains nothing. Every number is the preset's; the weights of `recommended` are those that
`minigrid_betas` found on other seeds.

All rows of a task have the same total of env frames. A row with pre-training begins on the axis
where its pre-training ended, and its eval.csv counts from there.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

from matplotlib.figure import Figure

from experiments.figures import command, rows
from experiments.figures.rows import Row
from experiments.figures.runs import Run
from re3_jax.runs import curves
from re3_jax.runs.config import BonusName, PresetName, flatten
from re3_jax.runs.curves import Curve
from re3_jax.runs.presets.minigrid import BUDGETS
from re3_jax.runs.resolve import resolve

TASKS = {"empty_16x16": "Empty-16x16", "doorkey_6x6": "DoorKey-6x6", "doorkey_8x8": "DoorKey-8x8"}
"""Tasks by their bare names, and their rows in the paper's table."""

FIRST_SEED, SEEDS = 11, 30
"""`recommended` was chosen on seeds 1 to 10, and weights are searched on 101 and above."""

PRETRAINING_TASK = "empty_16x16"
PRETRAINING_FRAMES = 100_000
"""Task and env frames of pre-training, on the bonus alone, in the rows called PT."""


class Variant(NamedTuple):
    """One curve in every panel.

    Attributes:
      label: its name in the figure.
      bonus: the intrinsic reward beside the task's.
      beta: the option that weights it, if it has one.
      pretraining: the bonus of the pre-training run it starts from, if any.
      neighbours: where a learned encoder's bonus searches for them, if not in the ring.
    """

    label: str
    bonus: BonusName
    beta: str | None = None
    pretraining: BonusName | None = None
    neighbours: str | None = None

    def run(self, task: str, preset: PresetName, beta: float | None = None) -> Run:
        """Its run in the figure, with the preset's bonus weight or another.

        Pre-training takes its frames from the task's budget, so that every row has the same total.
        Variants with the same pre-training start from the same run, seed by seed.
        """
        weight = {self.beta: f"{beta:g}"} if self.beta and beta is not None else {}
        where = {"learned.neighbours": self.neighbours} if self.neighbours else {}
        of_bonus = where if self.bonus != "none" else {}
        before = PRETRAINING_FRAMES if self.pretraining else 0
        steps = BUDGETS[TASKS[task]] - before
        of_preset = partial(Run, preset=preset, seeds=SEEDS, seed=FIRST_SEED)
        run = of_preset(task, self.bonus, steps=steps, changes=of_bonus | weight)
        if self.pretraining is None:
            return run
        pretrain = where | {"pretrain": str(before)}
        of_pretraining = PRETRAINING_TASK, self.pretraining
        return run._replace(init=of_preset(*of_pretraining, steps=before, changes=pretrain))

    def preset_beta(self, task: str, preset: PresetName) -> float | None:
        """The bonus weight in a preset; None if it has none."""
        if self.beta is None:
            return None
        tuned = self.pretraining is not None
        config = resolve(task, bonus=self.bonus, preset=preset, fine_tunes=tuned)
        return float(flatten(config)[self.beta])


RE3_PT = Variant("A2C + RE3 + PT", "re3", beta="re3.beta", pretraining="re3")
APT_PT = Variant("A2C + APT + PT", "contrastive", "re3.beta", "contrastive", "minibatch")

VARIANTS = {
    "none": Variant("A2C", "none"),
    "re3": Variant("A2C + RE3", "re3", beta="re3.beta"),
    "rnd": Variant("A2C + RND", "rnd", beta="rnd.beta"),
    "icm": Variant("A2C + ICM", "icm", beta="icm.beta"),
    "re3_pt": RE3_PT,
    "re3_pt_only": RE3_PT._replace(label="A2C + RE3 PT only", bonus="none", beta=None),
    # The paper's "A2C + SE w/ Contrastive + PT".
    "contrastive_pt_only": Variant("A2C + Contrastive PT only", "none", pretraining="contrastive"),
    "apt_pt": APT_PT,
    "apt_pt_only": APT_PT._replace(label="A2C + APT PT only", bonus="none", beta=None),
}
"""PT: pre-training. PT only: no bonus while fine-tuning, as in Liu and Abbeel (2021, APT)."""


def _draw(panels: dict[str, list[Curve]], last_seed: int) -> Figure:
    labels = [row.label for row in VARIANTS.values()]
    axes_of = partial(curves.draw_axes, labels=labels)
    lines = -(-max(len(panel) for panel in panels.values()) // len(panels))
    figure = curves.draw_panels(panels, (4.6, 4.0 + 0.24 * lines), len(panels), panel=axes_of)
    x_label = f"env frames, pre-training included (seeds {FIRST_SEED} to {last_seed})"
    for axes in figure.axes:
        axes.set_ylim(-0.02, 1.0)
        axes.set_xlabel(x_label)
    rows.legend_below(figure, len(panels))
    return figure


def _table(path: Path, found: Mapping[tuple[str, str], Curve], preset: PresetName) -> None:
    """One line per task and row, with what it had and how probably it ends above A2C and RE3."""
    betas = [VARIANTS[name].preset_beta(task, preset) for task, name in found]
    curves.write_table(
        [*found.values()],
        path,
        task=[task for task, _ in found],
        beta=["" if beta is None else f"{beta:g}" for beta in betas],
        pretraining_frames=[str(curve.env_frames[0]) for curve in found.values()],
        **rows.better_than("none", found),
        **rows.better_than("re3", found, [n for n, row in VARIANTS.items() if row.pretraining]),
    )


def _make(words: command.Words) -> command.Lines:
    for preset in words.presets:
        cells = {
            f"{preset}-{task}-{name}": (task, name)
            for task in TASKS
            for name in VARIANTS
            if task in words.tasks and name in words.rows
        }
        wanted = [
            Row(VARIANTS[name].label, file, VARIANTS[name].run(task, preset))
            for file, (task, name) in cells.items()
        ]
        drawn = {cells[file]: curve for file, curve in rows.load(words, wanted).items()}
        picture = _draw(rows.by_task(drawn, TASKS), FIRST_SEED + (words.seeds or SEEDS) - 1)
        curves.note_missing(picture, len(wanted) - len(drawn), len(wanted))
        picture.savefig(words.out / f"{preset}.png")
        _table(words.out / f"{preset}.csv", drawn, preset)
        yield words.out / f"{preset}.png"


OPTIONS: command.Options = {
    "--presets": {"nargs": "+", "default": ["recommended"], "choices": get_args(PresetName)},
    "--tasks": command.some_of(TASKS),
    "--rows": command.some_of(VARIANTS),
    "--seeds": {
        "type": command.at_least_one,
        "help": f"N for the seeds 11 to 10 + N, by default {SEEDS}",
    },
}

main = command.of("minigrid", _make, command.FINISHED | command.OF_RUNS | OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
