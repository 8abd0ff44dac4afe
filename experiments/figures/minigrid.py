"""The paper's MiniGrid figure: A2C with and without exploration bonuses and pre-training.

    make figure FIG=minigrid [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid [--presets recommended] [--rows none re3] [--seeds 10]

Trains missing runs, resumes interrupted ones, and writes, for each preset, a picture with one panel
per task and a table, with every run's eval.csv beside them. Every number is the preset's; the
weights of `recommended` are those that `minigrid_betas` found on other seeds.
"""

from functools import partial
from typing import NamedTuple, get_args

from matplotlib.figure import Figure

from experiments.config import BonusName, PresetName, flatten
from experiments.figures import command, curves, rows
from experiments.figures.curves import Curve
from experiments.figures.rows import Row
from experiments.figures.runs import Run
from experiments.presets.minigrid import BUDGETS
from experiments.resolve import resolve

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

    def run(self, task: str, preset: str, beta: float | None = None) -> Run:
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


def _draw(panels: dict[str, list[Curve]]) -> Figure:
    figure = curves.draw_panels(panels, (4.6, 4.3), len(panels))
    lines, labels = figure.axes[0].get_legend_handles_labels()
    for axes in figure.axes:
        axes.set_ylim(-0.02, 1.0)
        if (legend := axes.get_legend()) is not None:
            legend.remove()
    figure.legend(lines, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _make(words: command.Words) -> command.Lines:
    tasks = [task for task in TASKS if task in words.tasks]
    cells = [(task, name) for task in tasks for name in VARIANTS if name in words.rows]
    for preset in words.presets:
        of_cells, betas = [], []
        for task, name in cells:
            row, name = VARIANTS[name], f"{preset}-{task}-{name}"
            of_cells.append(Row(row.label, name, row.run(task, preset)))
            beta = row.preset_beta(task, preset)
            betas.append("" if beta is None else f"{beta:g}")
        drawn = rows.load(words, of_cells)
        panels: dict[str, list[Curve]] = {TASKS[task]: [] for task in tasks}
        for (task, _), curve in zip(cells, drawn, strict=True):
            panels[TASKS[task]].append(curve)
        _draw(panels).savefig(words.out / f"{preset}.png")
        table = words.out / f"{preset}.csv"
        curves.write_table(drawn, table, task=[task for task, _ in cells], beta=betas)
        yield words.out / f"{preset}.png"


OPTIONS: command.Options = {
    "--presets": {"nargs": "+", "default": ["recommended"], "choices": get_args(PresetName)},
    "--tasks": command.some_of(TASKS),
    "--rows": command.some_of(VARIANTS),
}

main = command.of("minigrid", _make, OPTIONS | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
