"""Ablations of RE3's bonus on MiniGrid: A2C + RE3 on DoorKey-6x6, one option at a time.

    make figure FIG=minigrid_ablations
    python -m experiments.figures.minigrid_ablations [--groups neighbours ensemble] [--finished]

The paper varies k and the initialisation on Hopper Hop (Section 4.1); it drops the logarithm and
decays beta on DeepMind Control. Each row changes one option of `recommended`, on the seeds of
`minigrid`. The weight is not searched again, although most of these options change the size of the
bonus. Writes curves.png with one panel per group, every run's eval.csv, and table.csv, which says
how probably a run ends above one of `recommended`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from experiments.figures import command, rows
from experiments.figures.minigrid import VARIANTS
from experiments.figures.rows import Row
from re3_jax.runs import curves

DEFAULT = Row("recommended", "recommended", VARIANTS["re3"].run("doorkey_6x6", "recommended"))


class Group(NamedTuple):
    """One panel: what its rows differ in, and value in words -> the option with this value."""

    title: str
    changes: Mapping[str, Mapping[str, str | bool]]


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
    "initialisation": Group(
        "initialisation (recommended: PyTorch's)",
        {name: {"re3.encoder-init": name.lower()} for name in ("Xavier", "He", "orthogonal")},
    ),
    "normalisation": Group(
        "running std (recommended: released)",
        {"exact": {"re3.normalize": "running_std"}, "none": {"re3.normalize": "none"}},
    ),
    "logarithm": Group("logarithm", {"none": {"re3.log1p": False}}),
    # Falls to a twelfth over the run, as the paper's on DeepMind Control.
    "decay": Group("decay of beta (recommended: none)", {"to a twelfth": {"re3.rho": "6.25e-6"}}),
    "ring": Group(
        "latents in the ring (recommended: 10,000)",
        {f"{size:,}": {"re3.ring-size": str(size)} for size in (1_000, 100_000)},
    ),
    "ensemble": Group("encoders (recommended: 1)", {"5": {"re3.ensemble-size": "5"}}),
}


def _rows(group: str) -> list[Row]:
    return [
        Row(words, rows.file_name(f"{group}-{words}"), DEFAULT.run._replace(changes=change))
        for words, change in GROUPS[group].changes.items()
    ]


def _make(words: command.Words) -> command.Lines:
    wanted = {group: _rows(group) for group in words.groups}
    found = rows.load(words, [DEFAULT, *(row for panel in wanted.values() for row in panel)])
    default = found.pop(DEFAULT.name, None)
    drawn = {
        group: [found[row.name] for row in panel if row.name in found]
        for group, panel in wanted.items()
    }
    first = [default] if default else []
    panels = {GROUPS[group].title: first + drawn[group] for group in drawn if first or drawn[group]}
    picture = curves.draw_panels(panels, (4.4, 3.8), across=4)
    total = sum(map(len, wanted.values()))
    curves.note_missing(picture, total - len(found), total)
    picture.savefig(words.out / "curves.png")
    of_group = [group for group, panel in drawn.items() for _ in panel]
    pairs = [(curve, None) for curve in first] + [(curve, default) for curve in found.values()]
    curves.write_table(
        [curve for curve, _ in pairs],
        words.out / "table.csv",
        group=[""] * len(first) + of_group,
        **curves.better_than(DEFAULT.name, pairs),
    )
    yield words.out / "curves.png"


OPTIONS: command.Options = {"--groups": command.some_of(GROUPS)}

main = command.of(
    "minigrid_ablations", _make, OPTIONS | command.FINISHED | command.STEPS | command.OF_RUNS
)

if __name__ == "__main__":
    raise SystemExit(main())
