"""Ablations of RE3's bonus on MiniGrid: A2C + RE3 on DoorKey-6x6, one option at a time.

    make figure FIG=minigrid_ablations
    python -m experiments.figures.minigrid_ablations [--groups neighbours ensemble] [--finished]

The paper varies k and the initialisation on Hopper Hop (Section 4.1); it drops the logarithm and
decays beta on DeepMind Control. Each row changes one option of `recommended`, on the seeds of
`minigrid`. The weight is not searched again, although most of these options change the size of the
bonus. Writes curves.png with one panel per group, every run's eval.csv, and table.csv, which says
how probably a run ends above one of `recommended`.
"""

from experiments.figures import ablations, command, rows
from experiments.figures.ablations import INITIALISATIONS, NORMALISATIONS, Group
from experiments.figures.minigrid import VARIANTS
from experiments.figures.rows import Row

DEFAULT = Row("recommended", "recommended", VARIANTS["re3"].run("doorkey_6x6", "recommended"))


GROUPS = {
    # `recommended` averages the ranks 1 to 5, and rank 1 is the state itself: 4 others.
    "neighbours": Group(
        "k nearest other states (recommended: 4)",
        {f"k = {k}": {"re3.last-neighbour": str(k + 1)} for k in (1, 3, 5, 7, 9)},
    ),
    "alone": Group(
        "k-th other state alone (recommended: mean of four)",
        {"the 4th": {"re3.first-neighbour": "5"}},
    ),
    "initialisation": Group("initialisation (recommended: PyTorch's)", INITIALISATIONS),
    "normalisation": Group("running std (recommended: released)", NORMALISATIONS),
    "logarithm": Group("logarithm", {"none": {"re3.log1p": False}}),
    # Falls to a twelfth over the run, as the paper's on DeepMind Control.
    "decay": Group("decay of beta (recommended: none)", {"to a twelfth": {"re3.rho": "6.25e-6"}}),
    "ring": Group(
        "latents in the ring (recommended: 10,000)",
        {f"{size:,}": {"re3.ring-size": str(size)} for size in (1_000, 100_000)},
    ),
    "ensemble": Group("encoders (recommended: 1)", {"5": {"re3.ensemble-size": "5"}}),
}


def _make(words: command.Words) -> command.Lines:
    wanted = {
        (group, value): Row(
            value, rows.file_name(f"{group}-{value}"), DEFAULT.run._replace(changes=change)
        )
        for (group, value), change in ablations.cells(words, GROUPS).items()
    }
    loaded = rows.load(words, [DEFAULT, *wanted.values()])
    found = {cell: loaded[row.name] for cell, row in wanted.items() if row.name in loaded}
    missing = len(wanted) - len(found), len(wanted)
    default = loaded.get(DEFAULT.name)
    yield from ablations.draw(words, GROUPS, DEFAULT.name, default, found, missing)


main = command.of(
    "minigrid_ablations",
    _make,
    ablations.options(GROUPS) | command.FINISHED | command.STEPS | command.OF_RUNS,
)

if __name__ == "__main__":
    raise SystemExit(main())
