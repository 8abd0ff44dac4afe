"""Ablations of RE3's bonus from pixels: RAD + RE3 on Pendulum Swingup, one option at a time.

    make figure FIG=dmc_ablations
    python -m experiments.figures.dmc_ablations [--groups neighbours] [--finished]

The paper varies k and the initialisation on Hopper Hop (Section 4.1), and the logarithm, the decay
and the weight on DeepMind Control (Appendix A.2). Each row changes one option of the size `small`,
on seeds that did not choose it; seeds 2 and on of `dmc` on this task are the row without a change.
Writes curves.png with one panel per group, every run's eval.csv, and table.csv, which says how
probably a run of a row ends above one of `small`, and has the larger area.
"""

from experiments.figures import ablations, command, rows, runs
from experiments.figures.ablations import INITIALISATIONS, NORMALISATIONS, Cell, Group
from experiments.figures.runs import Run
from re3_jax.runs import curves

DEFAULT: Cell = "", "small"

RUN = Run("pendulum_swingup", "re3", "small", 1, 75_000, "rad")

SEEDS = 4

FIRST_SEED = 2
"""The size `small` was chosen on seed 1."""


def _kth(k: int) -> dict[str, str | bool]:
    return {"re3.first-neighbour": str(k), "re3.last-neighbour": str(k)}


GROUPS = {
    "neighbours": Group(
        "k-th nearest other state (small: 3)", {f"k = {k}": _kth(k) for k in (1, 5, 7, 9)}
    ),
    "initialisation": Group("initialisation (small: PyTorch's)", INITIALISATIONS),
    "normalisation": Group("running std (small: released)", NORMALISATIONS),
    "logarithm": Group("logarithm (small: none)", {"with": {"re3.log1p": True}}),
    "decay": Group("decay of beta (small: the paper's)", {"none": {"re3.rho": "0"}}),
    "weight": Group("weight (small: 0.25)", {"0.05": {"re3.beta": "0.05"}}),
    "search": Group(
        "latents that are searched (small: 10,000)", {"1,000": {"re3.search-size": "1000"}}
    ),
    "ensemble": Group("encoders (small: 1)", {"5": {"re3.ensemble-size": "5"}}),
}


def _make(words: command.Words) -> command.Lines:
    wanted = {DEFAULT: RUN} | {
        cell: RUN._replace(changes=change)
        for cell, change in ablations.cells(words, GROUPS).items()
    }
    steps, seeds = words.steps or RUN.steps, words.seeds or SEEDS
    wanted = {cell: run._replace(steps=steps) for cell, run in wanted.items()}
    of_rows = runs.of_rows(words, wanted, seeds, FIRST_SEED)
    folders = {cell: [folder for _, folder in pairs] for cell, pairs in of_rows.items()}
    runs.copy_evaluations([folder for inside in folders.values() for folder in inside], words.out)
    found = {
        cell: rows.up_to(curves.load(cell[1], inside), steps) for cell, inside in folders.items()
    }
    total = len(wanted) * seeds
    missing = total - sum(map(len, folders.values())), total
    default = found.pop(DEFAULT, None)
    yield from ablations.draw(words, GROUPS, "small", default, found, missing)


main = command.of(
    "dmc_ablations",
    _make,
    ablations.options(GROUPS) | command.FINISHED | command.STEPS | command.OF_RUNS,
)

if __name__ == "__main__":
    raise SystemExit(main())
