"""Rows that `minigrid_hard` has not, on DoorKey-8x8: RISE, and RND as its authors have it.

    make figure FIG=minigrid_hard_more [ARGS="--jobs 2"]
    python -m experiments.figures.minigrid_hard_more [--rows rise]

RND's authors reward the next observation, whiten observations, and give the bonus a value function
of its own, whose rewards are divided by the deviation of their discounted sum. A weight of such
rewards has no effect, so that of their advantage is searched instead.

Every weight is searched as by `minigrid_hard_betas`, and the best trained on the seeds of
`minigrid_hard`, beside that figure's rows without a bonus, with RE3 and with RND. Writes
search.json, every row's eval.csv, curves.png and table.csv.
"""

from types import MappingProxyType
from typing import NamedTuple

from experiments.figures import command, minigrid_hard, rows
from experiments.figures.minigrid_hard_betas import SEEDS, search
from experiments.figures.rows import Row
from experiments.figures.runs import Run, Runs
from re3_jax.runs import curves, labels, run_folder
from re3_jax.runs.config import BonusName

TASK = "doorkey_8x8"

BESIDE = "none", "re3", "rnd"
"""Rows of `minigrid_hard` with which the others are compared."""

SIZE = 7.2, 4.6
"""Width and height of the picture in inches."""


class More(NamedTuple):
    """A row: its bonus, the option that is searched, the other options, the end of its label."""

    bonus: BonusName
    weight: str
    changes: MappingProxyType[str, str | bool] = MappingProxyType({})
    label: str = ""


ROWS = {
    "rise": More("rise", "rise.beta"),
    "rnd_of_its_authors": More(
        "rnd",
        "ppo.intrinsic-coef",
        MappingProxyType(
            {
                "rnd.rewarded": "next",
                "rnd.normalize-observations": True,
                "ppo.intrinsic-value-head": True,
                "ppo.scaled-rewards": "intrinsic",
            }
        ),
        " (its authors')",
    ),
}


def run(name: str) -> Run:
    """The run of a row, with the preset's weight."""
    of_figure = minigrid_hard.run(TASK, ROWS[name].bonus, "recommended")
    return of_figure._replace(changes={**of_figure.changes, **ROWS[name].changes})


def _make(words: command.Words) -> command.Lines:
    runs, searched = Runs(words.runs, words.jobs), {}
    given = {"steps": words.steps} if words.steps else {}
    wanted = [
        Row(minigrid_hard.LABELS[name], name, minigrid_hard.run(TASK, name, "recommended"))
        for name in BESIDE
    ]
    words.out.mkdir(parents=True, exist_ok=True)
    for name in words.rows:
        more, each = ROWS[name], run(name)._replace(**given)
        found = search(each, more.weight, words.seeds or SEEDS, runs)
        searched[name] = {"option": more.weight, **found}
        changes = {**each.changes, more.weight: f"{found['beta']:g}"}
        label = labels.of("ppo", more.bonus) + more.label
        wanted.append(Row(label, name, each._replace(changes=changes)))
        run_folder.write_json(words.out / "search.json", {TASK: searched})
        yield f"{label}: {more.weight} {found['beta']:g}"
    loaded = rows.load(words, wanted)
    cells = {(TASK, name): curve for name, curve in loaded.items()}
    panels = rows.by_task(cells, minigrid_hard.TASKS)
    curves.draw_panels(panels, SIZE, across=1).savefig(words.out / "curves.png")
    curves.write_table(
        [*loaded.values()],
        words.out / "table.csv",
        task=[TASK] * len(loaded),
        **{
            column: values
            for baseline in BESIDE
            for column, values in rows.better_than(baseline, cells).items()
        },
    )
    yield words.out / "curves.png"


OPTIONS: command.Options = {"--rows": command.some_of(ROWS)} | command.STEPS | command.OF_RUNS

main = command.of("minigrid_hard_more", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
