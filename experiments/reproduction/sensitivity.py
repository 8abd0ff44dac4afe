"""Section 4.1: ensembles, k, initialisation (Figure 10); the logarithm and the decay of beta."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from experiments.figures import dmc_ablations, minigrid_ablations
from experiments.reproduction import rules
from experiments.reproduction.entry import Entry, Find, Finding, Verdict, not_run
from experiments.reproduction.results import Interval, Results, Row, interval, seeds_and_frames

ROBUSTNESS = "results/robustness/table.csv"


class Ablations(NamedTuple):
    """A figure of ablations.

    Attributes:
      name: of its module.
      default: the row without a change.
      trained: what was trained, in words.
      groups: short names of its groups of rows.
    """

    name: str
    default: str
    trained: str
    groups: Iterable[str]

    def command(self, groups: Iterable[str]) -> str:
        """What draws these groups."""
        chosen = [name for name in self.groups if name in {*groups}]
        whole = f"make figure FIG={self.name}"
        return whole if chosen == [*self.groups] else f'{whole} ARGS="--groups {" ".join(chosen)}"'


MINIGRID = Ablations(
    *("minigrid_ablations", "recommended", "A2C + RE3 on DoorKey-6x6"), minigrid_ablations.GROUPS
)
PIXELS_OF_RAD = Ablations(
    *("dmc_ablations", "small", "RAD + RE3 on pendulum_swingup"), dmc_ablations.GROUPS
)

ENSEMBLE, ONE, PIXELS = "5 encoders", "1 encoder", "raw pixels"
ALL_TASKS, CLEAN = "all tasks", "clean"
NEAREST = "true nearest"
COLOURS = "tinted: colour", "recoloured: colour"
K = "3"

Cells = dict[tuple[str, str], Row]
"""(condition, representation) -> a row of the table."""


def _neighbours_found(conditions: Sequence[str], ours: str, theirs: str, of: str) -> Find:
    """Compares how many of the `of` frames two distances find, seed by seed."""

    def find(results: Results) -> Finding:
        table = [
            row
            for row in results.table(ROBUSTNESS)
            if row["k"] == K
            and row["task"] == ALL_TASKS
            and row["condition"] in (*conditions, CLEAN)
        ]
        if not {row["condition"] for row in table}.issuperset(conditions):
            return not_run("no committed result of ensembles")
        cells = {(row["condition"], row["representation"]): row for row in table}
        gains, words = [], []
        for condition in conditions:
            first, second = (cells[condition, name] for name in (ours, theirs))
            gains.append(_gain(cells, condition, ours, theirs))
            words.append(
                f"{condition.partition(':')[0]}: {interval(first, 'recall')} against "
                f"{interval(second, 'recall')}, difference {gains[-1]}"
            )
            if theirs == PIXELS:
                words[-1] += f", above {ONE} by {_gain(cells, condition, ours, ONE)}"
        seeds = min(int(row["seeds"]) for row in table)
        verdict, reason = rules.above_zero(gains, seeds, Verdict.REPRODUCED)
        if of == NEAREST and (CLEAN, ours) in cells:
            words.append(
                f"without a disturbance the difference is {_gain(cells, CLEAN, ours, theirs)}"
            )
        shares = f"share of the {of} frames among those found: " + "; ".join(words)
        ran = f"all tasks of the table, released encoder, {seeds} seeds, k = {K}"
        return Finding(verdict, shares, ran, reason, "make figure FIG=robustness")

    return find


def _gain(cells: Cells, condition: str, ours: str, theirs: str) -> Interval:
    """The difference of recall, paired by seed; the table has it less its baselines."""
    column = f"recall_minus_{theirs.replace(' ', '_')}"
    if column in cells[condition, ours]:
        return interval(cells[condition, ours], column)
    turned = interval(cells[condition, theirs], f"recall_minus_{ours.replace(' ', '_')}")
    return Interval(-turned.value, -turned.high, -turned.low)


def _ablation(group: str, judge: rules.Judge, figure: Ablations = MINIGRID) -> Find:
    """Judges changes of one option of RE3 against the row without a change."""

    def find(results: Results) -> Finding:
        table = f"results/{figure.name}/table.csv"
        default = results.row(table, label=figure.default)
        every = {
            (row["group"], row["label"]): one
            for row in results.table(table)
            if default
            and (one := rules.by_column(row, default, f"larger_area_than_{figure.default}"))
        }
        of_group = {label: one for (of, label), one in every.items() if of == group}
        if default is None or not of_group:
            return not_run("no committed result of these ablations")
        corrected = dict(zip(every, rules.holm([one.p for one in every.values()]), strict=True))
        verdict, reason = judge([*of_group.values()], Verdict.SMALLER)
        words = "; ".join(
            f"{label}: larger area {one.likelihood} ({corrected[group, label]:.2g} by Holm)"
            for label, one in of_group.items()
        )
        words += f"; Holm's correction is for the {len(every)} comparisons of the table"
        ran = f"{figure.trained}, {seeds_and_frames(default)}, against `{figure.default}`"
        drawn_by = figure.command({of for of, _ in every})
        return Finding(verdict, words, ran, reason, drawn_by)

    return find


def _improves(comparisons: Sequence[rules.Comparison], reproduced: Verdict) -> rules.Judged:
    return rules.better(comparisons, len(comparisons), reproduced)


def _is_worse(comparisons: Sequence[rules.Comparison], reproduced: Verdict) -> rules.Judged:
    turned = [one.turned() for one in comparisons]
    return rules.better(turned, len(turned), reproduced)


def _hopper(options: str) -> str:
    return f'make run ENV=hopper_hop PRESET=released ARGS="{options}"'


def _from_pixels(item: str, statement: str, group: str, judge: rules.Judge) -> Entry:
    return Entry(
        item,
        f"{statement}, from pixels (here: on Pendulum Swingup).",
        "make figure FIG=dmc_ablations",
        _ablation(group, judge, PIXELS_OF_RAD),
    )


ENTRIES = (
    Entry(
        "Figure 10 (a)",
        "An ensemble of random encoders is more robust to Gaussian noise.",
        "",
        _neighbours_found(("noise 10", "noise 25"), ENSEMBLE, ONE, NEAREST),
    ),
    Entry(
        "Figure 10 (b)",
        "With changed colours, an ensemble finds more similar positions than raw pixels.",
        "",
        _neighbours_found(("tinted", "recoloured"), ENSEMBLE, PIXELS, NEAREST),
    ),
    Entry(
        "Figure 10 (b)",
        "With changed colours, raw pixels find similar colours (here: more than the ensemble).",
        "",
        _neighbours_found(COLOURS, PIXELS, ENSEMBLE, "most similarly coloured"),
    ),
    Entry(
        "Figure 10 (c)",
        "RE3 is robust to k in 1, 3, 5, 7, 9 (Hopper Hop).",
        _hopper("--re3.first-neighbour 10 --re3.last-neighbour 10"),
        _ablation("neighbours", rules.alike),
    ),
    _from_pixels("Figure 10 (c)", "RE3 is robust to k in 1, 3, 5, 7, 9", "neighbours", rules.alike),
    Entry(
        "Figure 10 (d)",
        "RE3 is robust to Xavier, He and orthogonal initialisation (Hopper Hop).",
        _hopper("--re3.encoder-init xavier"),
        _ablation("initialisation", rules.alike),
    ),
    _from_pixels("Figure 10 (d)", "RE3 is robust to these", "initialisation", rules.alike),
)

DECAY = (
    Entry(
        "Section 3.2",
        "Decaying beta_t stabilises the performance.",
        _hopper("--re3.rho 0"),
        _ablation("decay", _improves),
    ),
    _from_pixels("Section 3.2", "Decaying beta_t stabilises the performance", "decay", _is_worse),
)

ALONE = Entry(
    "Appendix C",
    "The mean over the 2nd to the k-th neighbour performs better than the k-th alone.",
    "make figure FIG=minigrid_ablations",
    _ablation("alone", _is_worse),
)

LOGARITHM = (
    Entry(
        "Appendix A.2",
        "Results with the logarithm of Equation 3 are similar to those without.",
        _hopper("--re3.log1p"),
        _ablation("logarithm", rules.alike),
    ),
    _from_pixels(
        "Appendix A.2", "Results with the logarithm are similar", "logarithm", rules.alike
    ),
)

WEIGHT = _from_pixels(
    "Appendix A.2",
    "Of the weights 0.05 and 0.25 a search chose the larger for this task",
    "weight",
    _is_worse,
)
