"""The paper's fine-tuning panels: Hopper Hop and Stand, with and without pre-training.

    make figure FIG=fine_tuning [ARGS="--frames 25000 --steps 125000"]
    python -m experiments.figures.fine_tuning [--rows none re3 re3_pt] [--finished]

Rows with pre-training (PT) start from the runs of `pretraining` on Hopper, seed by seed, and keep
their bonus. Their curves begin after the frames of pre-training, and every row has the same number
of frames, those included. Writes curves.png, table.csv and every run's eval.csv; the table says how
probably a run is above one without a bonus, and above one pre-trained on RE3.
"""

from typing import NamedTuple

from experiments.figures import command, pretraining, runs
from experiments.figures.rows import better_than, by_task, frames_before, up_to
from experiments.figures.runs import Run, Runs
from re3_jax.runs import curves
from re3_jax.runs.config import BonusName, PresetName
from re3_jax.runs.errors import UsageError

TASKS = {"hopper_hop": "Hopper Hop", "hopper_stand": "Hopper Stand"}

PRETRAINING_TASK = "hopper_hop"

STEPS = 500_000


class Variant(NamedTuple):
    """One curve in every panel.

    Attributes:
      label: its name in the figure.
      bonus: the intrinsic reward beside the task's.
      is_pretrained: whether it starts from a run on this bonus alone.
    """

    label: str
    bonus: BonusName
    is_pretrained: bool = False

    def run(self, task: str, preset: PresetName, frames: int, steps: int) -> Run:
        """Its run, of one seed: `steps` env frames, of which `frames` pre-train."""
        if not self.is_pretrained:
            return Run(task, self.bonus, preset, 1, steps, "rad")
        method = pretraining.METHODS[self.bonus]
        before = method.run(PRETRAINING_TASK, preset, frames)
        after = steps - frames
        return Run(task, self.bonus, preset, 1, after, "rad", changes=method.changes, init=before)


VARIANTS = {
    "none": Variant("RAD", "none"),
    "re3": Variant("RAD + RE3", "re3"),
    "re3_pt": Variant("RAD + RE3 + PT", "re3", is_pretrained=True),
    "contrastive_pt": Variant("RAD + SE w/ Contrastive + PT", "contrastive", is_pretrained=True),
}


def _make(words: command.Words) -> command.Lines:
    if words.frames >= words.steps:
        raise UsageError(
            f"--frames {words.frames} of pre-training leave nothing of --steps {words.steps}: "
            "give more --steps or fewer --frames"
        )
    rows = {
        (task, name): VARIANTS[name].run(task, words.preset, words.frames, words.steps)
        for task in words.tasks
        for name in words.rows
    }
    all_runs, drawn = Runs(words.runs), {}
    seeds = words.seeds or pretraining.SEEDS
    of_rows = runs.of_rows(words, rows, seeds)
    before = {cell: frames_before(pairs[0][0], all_runs) for cell, pairs in of_rows.items()}
    for cell, pairs in of_rows.items():
        label, (run, _) = VARIANTS[cell[1]].label, pairs[0]
        curve = up_to(curves.load(label, [folder for _, folder in pairs]), run.steps)
        drawn[cell] = curve._replace(env_frames=curve.env_frames + before[cell])
    runs.copy_evaluations([folder for pairs in of_rows.values() for _, folder in pairs], words.out)
    panels = by_task(drawn, TASKS)
    picture, wanted = curves.draw_panels(panels, (4.6, 3.8), len(panels)), len(rows) * seeds
    curves.note_missing(picture, wanted - sum(map(len, of_rows.values())), wanted)
    picture.savefig(words.out / "curves.png")
    compared = better_than("none", drawn) | better_than("re3_pt", drawn)
    beside = {"task": [task for task, _ in drawn], **compared}
    beside["pretraining_frames"] = [str(frames) for frames in before.values()]
    curves.write_table([*drawn.values()], words.out / "table.csv", **beside)
    yield words.out / "curves.png"


OPTIONS: command.Options = {
    "--tasks": command.some_of(TASKS),
    "--rows": command.some_of(VARIANTS),
    "--steps": {"type": int, "default": STEPS, "help": "env frames of each row"},
}

main = command.of("fine_tuning", _make, pretraining.OF_EXPLORING | OPTIONS | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
