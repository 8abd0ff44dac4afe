"""Which difference between the paper and the released code matters: one option at a time.

A2C + RE3 on DoorKey-6x6 with the `released` preset; the same with one option at a time set to what
the paper's text says; the `paper` preset; and `paper` with the released code's RMSprop epsilon.

    make figure FIG=minigrid_deviations

The seeds are those of `minigrid`; table.csv says how probably a run ends above one of `released`.
`--finished` draws what is finished and trains nothing.
"""

from functools import partial

from experiments.figures import command, rows
from experiments.figures.minigrid import FIRST_SEED, SEEDS
from experiments.figures.rows import Row
from experiments.figures.runs import Run
from re3_jax.runs import curves

TASK = "doorkey_6x6"

of_preset = partial(Run, TASK, "re3", seeds=SEEDS, seed=FIRST_SEED, steps=400_000)
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


def _make(words: command.Words) -> command.Lines:
    wanted = [Row(label, rows.file_name(label), run) for label, run in ROWS.items()]
    found = rows.load(words, wanted)
    drawn = [*found.values()]
    title = f"{TASK}, A2C + RE3, one change at a time"
    picture = curves.draw_panels({title: drawn}, (7.2, 5.4), across=1)
    curves.note_missing(picture, len(wanted) - len(found), len(wanted))
    picture.savefig(words.out / "curves.png")
    others = [None if name == "released" else found.get("released") for name in found]
    better = curves.better_than("released", zip(drawn, others, strict=True))
    curves.write_table(drawn, words.out / "table.csv", **better)
    yield words.out / "curves.png"


main = command.of("minigrid_deviations", _make, command.FINISHED | command.STEPS | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
