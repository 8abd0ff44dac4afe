"""Which difference between the paper and the released code matters: one option at a time.

A2C + RE3 on DoorKey-6x6 with the `released` preset; the same with one option at a time set to what
the paper's text says; the `paper` preset; and `paper` with the released code's RMSprop epsilon.

    make figure FIG=minigrid_deviations
"""

from functools import partial

from experiments.figures import command, curves, rows
from experiments.figures.rows import Row
from experiments.figures.runs import Run

TASK = "doorkey_6x6"

of_preset = partial(Run, TASK, "re3", seeds=10, steps=400_000)
released, paper = partial(of_preset, "released"), partial(of_preset, "paper")

ROWS = {
    "released": released(),
    "5 frames per process": released(changes={"a2c.rollout-length": "5"}),
    "RMSprop eps 0.01": released(changes={"a2c.rmsprop-eps": "0.01"}),
    "bonus in the reward": released(changes={"a2c.bonus-target": "reward"}),
    "neighbours 2 to 3": released(changes={"re3.first-neighbour": "2", "re3.last-neighbour": "3"}),
    "no normalisation": released(changes={"re3.normalize": "none"}),
    "exact running std": released(changes={"re3.normalize": "running_std"}),
    "paper": paper(),
    "paper, RMSprop eps 1e-8": paper(changes={"a2c.rmsprop-eps": "1e-8"}),
    "no bonus (released)": released()._replace(bonus="none"),
}
"""Label -> run."""


def file_name(label: str) -> str:
    """A label as a file name."""
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in label)


def _make(words: command.Words) -> command.Lines:
    drawn = rows.load(words, [Row(label, file_name(label), run) for label, run in ROWS.items()])
    curves.draw(drawn, f"{TASK}, A2C + RE3, one change at a time", words.out / "curves.png")
    curves.write_table(drawn, words.out / "table.csv")
    yield words.out / "curves.png"


main = command.of("minigrid_deviations", _make, command.STEPS | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
