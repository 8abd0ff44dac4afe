"""Section 4.1: behaviours without a reward, and fine-tuning (Figures 8 and 9)."""

from collections.abc import Collection, Sequence

import numpy as np

from experiments.figures.fine_tuning import VARIANTS
from experiments.figures.pretraining import METHODS, TASKS
from experiments.reproduction import costs, rules
from experiments.reproduction.entry import Entry, Find, Finding, Verdict, never, not_run
from experiments.reproduction.results import Interval, Results, Row, interval, seeds_and_frames

PRETRAIN = "make run ENV=hopper_hop BONUS=re3 PRESET=paper PRETRAIN=500000 OUT=runs/explorer"
FINE_TUNE = "make run ENV={task} BONUS=re3 PRESET=paper INIT=runs/explorer"

SEVERAL = "", "_walker_cheetah"
"""Ends of the names of the folders `pretraining` and `behaviours`, whose seeds differ in number."""
ENTROPY, TABLE = "results/pretraining{}/entropy.csv", "results/pretraining{}/table.csv"
STRIPS = "results/behaviours{}/strips.png"
FINE_TUNED = "results/fine_tuning/table.csv"

SHOWN_SEEDS = 3
"""At most so many seeds of each row are in the strips and videos."""
ABOVE_OURS = "larger_area_than_re3_pt"

ROWS = {variant.label: name for name, variant in VARIANTS.items()}

OURS = "RE3"
LEARNED = ("APT (SE w/ Contrastive)", "SE w/ Inverse dynamics")
RANDOM = "random actions"


def _last(results: Results) -> dict[tuple[str, str], dict[str, float]]:
    """(task, row) -> seed -> the entropy of the true states at the last frame, in nats."""
    last: dict[tuple[str, str], dict[str, float]] = {}
    lines = [line for end in SEVERAL for line in results.table(ENTROPY.format(end))]
    for line in sorted(lines, key=lambda line: int(line["env_frames"])):
        of_row = last.setdefault((line["task"], line["label"]), {})
        of_row[line["seed"]] = float(line["state_entropy"])
    return last


def _higher_entropy(*others: str, tasks: Sequence[str] = tuple(TASKS)) -> Find:
    """Compares the entropy of the true states under RE3 with that under others, seed by seed."""

    def find(results: Results) -> Finding:
        last = _last(results)
        differences = {
            (task, other): np.array([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
            for (task, label), ours in last.items()
            for other in others
            if task in tasks and label == OURS
            if (theirs := last.get((task, other), {})).keys() & ours
        }
        if not differences:
            return not_run(costs.rad(results))
        found = {cell: Interval.of_mean(values) for cell, values in differences.items()}
        seeds = min(map(len, differences.values()))
        judged = rules.above_zero([*found.values()], seeds, Verdict.SMALLER)
        missing = [
            f"{other} on {task}"
            for task, label in last
            for other in others
            if task in tasks and label == OURS
            if (task, other) not in found
        ]
        verdict, reason = rules.all_ran(judged, missing)
        words = "; ".join(
            f"{task}: {difference} nats above {other} with the same seed"
            for (task, other), difference in found.items()
        )
        tables = _tables(results, {task for task, _ in found})
        ran = "; ".join(
            f"`small`, {' and '.join(_values(rows, 'task'))}, {seeds_and_frames(rows[0])}"
            for rows in tables
        )
        return Finding(verdict, words, ran, reason, _commands("pretraining", tables))

    return find


def _tables(
    results: Results, tasks: Collection[str] = tuple(TASKS), ends: Sequence[str] = SEVERAL
) -> list[list[Row]]:
    """The rows of these tasks in each folder of `ends` that has some."""
    every = (results.table(TABLE.format(end)) for end in ends)
    of_tasks = ([row for row in rows if row["task"] in tasks] for rows in every)
    return [rows for rows in of_tasks if rows]


def _values(rows: Sequence[Row], column: str) -> list[str]:
    return list(dict.fromkeys(row[column] for row in rows))


def _commands(figure: str, tables: Sequence[Sequence[Row]], most: int | None = None) -> str:
    """The commands of a figure of the runs in each table, of at most so many seeds."""
    names = {method.label: name for name, method in METHODS.items()}
    commands = []
    for rows in tables:
        tasks, labels = _values(rows, "task"), _values(rows, "label")
        methods = " ".join(names[label] for label in labels)
        seeds = min(_seeds(rows[0]), most or _seeds(rows[0]))
        size = f"--frames {rows[0]['env_frames']} --seeds {seeds}"
        commands.append(
            f'make figure FIG={figure} ARGS="--tasks {" ".join(tasks)} --rows {methods} {size}"'
        )
    return "; ".join(commands)


def _behaviours(results: Results) -> Finding:
    drawn = [end for end in SEVERAL if results.exists(STRIPS.format(end))]
    if not drawn:
        return not_run(costs.rad(results))
    measured = _higher_entropy(LEARNED[0], RANDOM)(results)
    folders = " and ".join(f"`results/behaviours{end}`" for end in drawn)
    words = f"strips and videos in {folders}; measured by their entropy: {measured.result}"
    strips = _commands("behaviours", _tables(results, ends=drawn), SHOWN_SEEDS)
    return measured._replace(result=words, command=f"{strips}; {measured.command}")


def _seeds(row: Row) -> int:
    return int(row["seeds"])


def _fine_tuned(task: str, other: str) -> Find:
    """Compares RAD + RE3 + PT with another row of a panel, by area under the curve."""

    def find(results: Results) -> Finding:
        labels = "RAD + RE3 + PT", other
        rows = [results.row(FINE_TUNED, task=task, label=label) for label in labels]
        found: list[Row] = [row for row in rows if row]
        if len(found) < len(rows):
            return not_run(costs.rad(results))
        ours, theirs = found
        seeds = min(map(_seeds, found))
        verdict, reason = Verdict.NOT_REPRODUCED, rules.too_few(seeds)
        words = f"{interval(ours)} against {interval(theirs)}"
        if _seeds(ours) != _seeds(theirs):
            words += f" (of {_seeds(ours)} and {_seeds(theirs)} seeds)"
        if above := rules.by_column(theirs, ours, ABOVE_OURS):
            verdict, reason = rules.better([above.turned()], 1, Verdict.SMALLER)
            words += rules.in_words(above.turned(), "a larger area")
        ran = f"`small`, {seeds_and_frames(min(found, key=_seeds))}, pre-training included"
        before, whole = found[0]["pretraining_frames"], found[0]["env_frames"]
        size = f"--frames {before} --steps {whole}"
        command = "; ".join(
            f'make figure FIG=fine_tuning ARGS="--preset small --tasks {task} '
            f'--rows {" ".join(ROWS[row["label"]] for row in rows)} {size} --seeds {number}"'
            for number in dict.fromkeys(map(_seeds, found))
            if (rows := [row for row in found if _seeds(row) == number])
        )
        return Finding(verdict, words, ran, reason, command)

    return find


ENTRIES = (
    Entry(
        "Figure 8",
        "After 500,000 frames without a reward, RE3 shows more diverse behaviours than APT or "
        "random actions.",
        PRETRAIN,
        _behaviours,
    ),
    Entry(
        "Figure 9 (a)",
        "Pre-training Hopper with RE3 gives a higher entropy of the true states than contrastive "
        "learning and inverse dynamics.",
        PRETRAIN,
        _higher_entropy(*LEARNED, tasks=["hopper_hop"]),
    ),
    *(
        Entry(
            f"Figure 9 ({panel})",
            f"Pre-training with RE3 improves on {other} when fine-tuned: {title}.",
            FINE_TUNE.format(task=task),
            _fine_tuned(task, label),
        )
        for panel, task, title in (
            ("b", "hopper_hop", "Hopper Hop"),
            ("c", "hopper_stand", "Hopper Stand"),
        )
        for other, label in (
            ("RAD + RE3", "RAD + RE3"),
            ("other pre-training", "RAD + SE w/ Contrastive + PT"),
        )
    ),
    Entry(
        "Section 4.1",
        "500,000 frames of pre-training are enough, where earlier work reported 5 million.",
        PRETRAIN,
        never("about numbers of frames in other papers; Figure 9 has the returns"),
    ),
)
