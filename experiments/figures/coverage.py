"""How broadly runs visited the true states while they learned a task: entropy over training.

    make figure FIG=coverage ARGS="RUN_DIR ..."

For the question that the returns of two bonuses leave open: did a run see more of its task? Takes
runs of RAD and DrQ on DeepMind Control; those that differ in their seeds only are one row. Their
states are simulated again from the actions in their replays (`replayed`), and `visited_entropy`
measures them, for all rows of a task over the frames that each of its runs went through. With
`--poses`, states are without their velocities.

Writes entropy.png, entropy.csv with every seed, and table.csv with the last points: means over
seeds with 95% intervals, of the entropy and of how much it is above that of the task's first row
with the same seed, and how probably a run of the row ends above one of that first row.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.figures import command, replayed, visited_entropy
from experiments.figures.visited_entropy import Measured
from re3_jax.plural import number_of
from re3_jax.runs import comparison, curves, suites
from re3_jax.runs.comparison import Row
from re3_jax.runs.errors import UsageError

AGENTS = "rad", "drq"

COLUMNS = (
    *visited_entropy.LAST_COLUMNS,
    *("above_first", "above_first_low", "above_first_high"),
    *("better_than_first", "better_than_first_low", "better_than_first_high"),
    "better_than_first_p",
)


def measured(rows: Sequence[Row], velocity: bool = True) -> list[Measured]:
    """The entropies of all rows of one task, up to the last frame that each run went through.

    Without `velocity`, the states are poses.

    Raises:
      UsageError: a run is of another agent or suite, is too short, or has no replay of all of it;
        or two differ in their action repeat.
    """
    for row in rows:
        if row.options["agent"] not in AGENTS or suites.find(row.task)[0].name != "dmc":
            raise UsageError(
                f"the run in {row.folders[0]} is of {row.options['agent']} on {row.task}: give "
                f"runs of {' or '.join(AGENTS)} on DeepMind Control"
            )
    played = [[one for folder in row.folders for one in replayed.read(folder)] for row in rows]
    every = [one for of_row in played for one in of_row]
    if len({one.config.action_repeat for one in every}) > 1:
        raise UsageError(
            f"the runs of {rows[0].task} differ in --dmc.action-repeat, so that as many env frames "
            "are not as many states: give runs that agree in it"
        )
    shortest = min(every, key=lambda one: len(one.actions) * one.config.action_repeat)
    if len(shortest.actions) < visited_entropy.MINIBATCH:
        raise UsageError(
            f"the run in {shortest.folder} has only {number_of(len(shortest.actions), 'state')}: "
            f"train it until it has {visited_entropy.MINIBATCH}, or leave it out"
        )
    frames = len(shortest.actions) * shortest.config.action_repeat
    return [
        visited_entropy.measure(row.curve.label, of_row, frames, velocity)
        for row, of_row in zip(rows, played, strict=True)
    ]


def _last_points(found: Mapping[str, Sequence[Measured]]) -> list[list[object]]:
    lines: list[list[object]] = []
    for task, (first, *others) in found.items():
        for one in (first, *others):
            above = visited_entropy.above(one, first) if one is not first else None
            better = curves.improvement(one.curve, None if one is first else first.curve)
            lines.append(
                [
                    *visited_entropy.last_point(task, one),
                    *(visited_entropy.interval(above) if above else [""] * 3),
                    # Those of the ends; the others are of areas.
                    *better[:4],
                ]
            )
    return lines


def _make(words: command.Words) -> command.Lines:
    panels: dict[str, list[Row]] = {}
    for row in comparison.rows_of(words.folders):
        panels.setdefault(row.task, []).append(row)
    found = {}
    for task, rows in panels.items():
        found[task] = measured(rows, velocity=not words.poses)
        for one in found[task]:
            ends = one.curve.returns[:, -1]
            seeds = number_of(len(ends), "seed")
            yield f"{task}, {one.curve.label}: {ends.mean():.2f} nats, {seeds}"
    words.out.mkdir(parents=True, exist_ok=True)
    visited_entropy.write_points(words.out / "entropy.csv", found)
    curves.write_csv(words.out / "table.csv", COLUMNS, _last_points(found))
    drawn = {task: [one.curve for one in rows] for task, rows in found.items()}
    panel = visited_entropy.panel_of(words)
    picture = curves.draw_panels(drawn, (4.6, 3.8), across=3, panel=panel)
    picture.savefig(words.out / "entropy.png")
    yield words.out / "entropy.png"


main = command.of(
    "coverage",
    _make,
    {"folders": {"nargs": "+", "type": Path, "metavar": "RUN_DIR"}} | visited_entropy.POSES,
)

if __name__ == "__main__":
    raise SystemExit(main())
