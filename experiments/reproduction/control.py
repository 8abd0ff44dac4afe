"""Section 4.1: agents on DeepMind Control with and without bonuses (Figures 4 to 6 and 14)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from experiments.figures.dmc import BONUSES
from experiments.reproduction import costs, rules
from experiments.reproduction.entry import Entry, Find, Finding, Verdict, never, not_run
from experiments.reproduction.results import Results, Row, interval, seeds_and_frames
from re3_jax.runs import labels
from re3_jax.runs.presets.dmc import MAIN_TASKS

PAPERS_SIZE = "dmc"
WHOLE_LENGTH = "dmc_small_500000"
THREE_STEPS, ONE_STEP = "dmc_small_three_steps", "dmc_small"
FIGURE_14 = "dmc_small_figure_14"
FOLDERS = {
    PAPERS_SIZE: Verdict.REPRODUCED,
    WHOLE_LENGTH: Verdict.SMALLER,
    THREE_STEPS: Verdict.SMALLER,
    FIGURE_14: Verdict.SMALLER,
    ONE_STEP: Verdict.SMALLER,
}
"""Folder of results -> the verdict that its runs can reach; the first that has the rows counts, or
the first that has enough seeds of them."""

BONUSES_SMALL = "dmc_small_bonuses"
BONUS_FOLDERS = {PAPERS_SIZE: Verdict.REPRODUCED, BONUSES_SMALL: Verdict.SMALLER}

SEARCHED = frozenset({"cheetah_run_sparse", "pendulum_swingup", "cartpole_swingup_sparse"})
"""Tasks on whose seed 1 of RAD and RAD + RE3 `small` was chosen: their first there is seed 2."""

DREAMER_SMALL = "dmc_small_dreamer"
DREAMER_FOLDERS = {PAPERS_SIZE: Verdict.REPRODUCED, DREAMER_SMALL: Verdict.SMALLER}

AUTHORS = "experiments/reproduction/authors.csv"
"""Returns with RE3 in the curves that the authors published, `data/rad_re3.csv` and
`data/dreamer_re3.csv` of their repository: at the last evaluation up to so many frames, the mean
over seeds with Student's interval."""

SCORE, SPARSE_TASK = 601.6, "cheetah_run_sparse"
"""Average return of RAD + RE3 that Section 4.1 states, at 500,000 env frames."""

AREA, END = "larger_area_than_none", "better_than_none"
"""What the tables say about sample-efficiency, which decides, and about returns at the end."""

FAILS = 100.0
"""Return below which an agent fails SPARSE_TASK here: a sixth of RAD + RE3's; the paper has no
number."""


FROM_SEED_2 = " (from seed 2: 1 chose the size)"

WON = rules.wins(1)
"""For statements about one task."""


def _rows(results: Results, folder: str, task: str, *labels: str) -> list[Row] | None:
    """The rows of these labels; None unless all are there."""
    found = [results.row(f"results/{folder}/table.csv", task=task, label=x) for x in labels]
    return [row for row in found if row] if all(found) else None


def _command(
    folder: str,
    tasks: Sequence[str],
    agent: str,
    ran: Sequence[Row] = (),
    bonuses: str = "",
    chose_size: bool = True,
) -> str:
    """The figure with as many seeds and frames as the rows that `ran`.

    Args:
      folder: of results.
      tasks: that ran.
      agent: that ran.
      ran: rows of the table.
      bonuses: further words.
      chose_size: whether `small` was chosen on seeds of these rows, too.
    """
    words = f"--tasks {' '.join(tasks)}" + f" --agent {agent}" * (agent != "rad") + bonuses
    if ran:
        seeds, frames = (max(int(row[column]) for row in ran) for column in ("seeds", "env_frames"))
        words += " --first-seed 2" * (chose_size and _leaves_out_seed_1(folder, tasks))
        words += f" --seeds {seeds} --steps {frames}"
    if folder != PAPERS_SIZE:
        words = f"--preset small {words}"
    if folder == ONE_STEP:
        words += " --options sac.n_steps=1"
    return f'make figure FIG=dmc ARGS="{words}"'


def _leaves_out_seed_1(folder: str, tasks: Sequence[str]) -> bool:
    return folder in (WHOLE_LENGTH, THREE_STEPS, BONUSES_SMALL) and SEARCHED.issuperset(tasks)


def with_and_without_re3(
    tasks: Sequence[str],
    label: str = "RAD",
    folders: dict[str, Verdict] = FOLDERS,
    cost: Callable[[Results, str], str] = costs.rad,
    judge: rules.Judge = WON,
) -> Find:
    """Compares an agent with RE3 and without, by area under the curve, on the tasks that have run.

    Args:
      tasks: those that the statement is about.
      label: the agent's in the tables.
      folders: where its runs are, see `FOLDERS`.
      cost: of a run that is missing.
      judge: decides on the comparisons of the tasks that have run.
    """

    def find(results: Results) -> Finding:
        first = _first_comparable(results, folders, tasks, label)
        if first is None:
            return not_run(cost(results, tasks[0]))
        folder, found = first
        compared = {
            task: rules.by_column(ours, theirs, AREA) for task, (ours, theirs) in found.items()
        }
        verdict, reason = _judged(compared.values(), judge, folders[folder])
        words = [
            f"{task}: {_return(ours)} with RE3"
            + _of_authors(results, label, ours)
            + f", {_return(theirs)} without"
            + _frames_that_differ(ours, theirs)
            + rules.in_words(compared[task], "a larger area")
            + rules.in_words(rules.by_column(ours, theirs, END), "higher at the end")
            for task, (ours, theirs) in found.items()
        ]
        ran = _size(folder) + f", {len(found)} of {len(tasks)} tasks" * (len(tasks) > 1)
        ran += f", {_of_all(found)}"
        ran += FROM_SEED_2 * _leaves_out_seed_1(folder, [*found])
        ran_rows = [row for pair in found.values() for row in pair]
        command = _command(folder, [*found], label.lower(), ran_rows)
        return Finding(verdict, "; ".join(words), ran, reason, command)

    return find


def _first_comparable(
    results: Results, folders: Iterable[str], tasks: Sequence[str], label: str
) -> tuple[str, dict[str, list[Row]]] | None:
    """The first folder in which some task has rows with and without RE3, and these by task.

    Tasks with enough seeds for a comparison come before those whose rows are only begun, in the
    folder and among the folders.
    """
    begun = []
    for folder in folders:
        pairs = {task: _rows(results, folder, task, f"{label} + RE3", label) for task in tasks}
        found = {task: pair for task, pair in pairs.items() if pair}
        if compared := {task: pair for task, pair in found.items() if _is_comparison(pair)}:
            return folder, compared
        if found:
            begun.append((folder, found))
    return next(iter(begun), None)


def _is_comparison(pair: Iterable[Row]) -> bool:
    return min(int(row["seeds"]) for row in pair) >= rules.FEWEST_SEEDS


def _of_all(found: Mapping[str, Sequence[Row]]) -> str:
    """How much ran of each task's rows with and without RE3, told apart where it differs."""
    of_task = {}
    for task, pair in found.items():
        ours, theirs = map(seeds_and_frames, pair)
        of_task[task] = ours if ours == theirs else f"{ours} with RE3 and {theirs} without"
    if len({*of_task.values()}) == 1:
        return next(iter(of_task.values()))
    return "; ".join(f"{task} {ran}" for task, ran in of_task.items())


def _judged(
    compared: Collection[rules.Comparison | None], judge: rules.Judge, reproduced: Verdict
) -> rules.Judged:
    """What `judge` decides, if every row has several seeds."""
    known = [one for one in compared if one]
    if len(known) < len(compared):
        # Tables leave the cells of a single seed empty.
        return Verdict.NOT_REPRODUCED, rules.too_few(1)
    return judge(known, reproduced)


def _size(folder: str) -> str:
    if folder == PAPERS_SIZE:
        return "the paper's size"
    # What `small` was when these ran.
    return "`small`" + " with returns of one step (seeds 2 to 5)" * (folder == ONE_STEP)


def _frames_that_differ(ours: Row, theirs: Row) -> str:
    """Where the two runs were stopped, if not after equally many frames."""
    ends = [int(row["env_frames"]) for row in (ours, theirs)]
    return f" (after {ends[0]:,} and {ends[1]:,} frames)" if ends[0] != ends[1] else ""


def _of_authors(results: Results, label: str, ours: Row) -> str:
    """What the authors' runs with RE3 had at that frame, if their curves have the task."""
    cells = {"task": ours["task"], "env_frames": ours["env_frames"]}
    row = results.row(AUTHORS, agent=label.lower(), **cells)
    return f" (the authors' {row['seeds']} seeds: {interval(row)})" if row else ""


def _return(row: Row) -> str:
    """Mean with its interval, which few seeds do not have in a way worth printing."""
    found = interval(row)
    return str(found) if int(row["seeds"]) >= rules.FEWEST_SEEDS else f"{found.value:.0f}"


def _states_its_score(results: Results) -> Finding:
    table = f"results/{PAPERS_SIZE}/table.csv"
    row = results.row(table, task=SPARSE_TASK, label="RAD + RE3")
    if row is None:
        return not_run(costs.rad(results))
    verdict, reason = rules.contains(interval(row), int(row["seeds"]), SCORE, Verdict.REPRODUCED)
    return Finding(verdict, f"{_return(row)} against {SCORE}", seeds_and_frames(row), reason)


def _fail(results: Results) -> Finding:
    for folder, reproduced in FOLDERS.items():
        rows = _rows(results, folder, SPARSE_TASK, "RAD", "DrQ")
        if rows:
            judged = [
                rules.below(interval(row), int(row["seeds"]), FAILS, reproduced) for row in rows
            ]
            verdict, reason = max(judged, key=lambda one: one[0] is Verdict.NOT_REPRODUCED)
            words = ", ".join(f"{row['label']} {_return(row)}" for row in rows)
            words += f"; {FAILS:.0f} or more is no failure"
            rad, drq = (f"{row['label']} {seeds_and_frames(row)}" for row in rows)
            rad += FROM_SEED_2 * _leaves_out_seed_1(folder, [SPARSE_TASK])
            run = partial(_command, folder, [SPARSE_TASK], bonuses=" --bonuses none")
            of_drq = run("drq", rows[1:], chose_size=False)
            command = f"{run('rad', rows[:1])}; {of_drq}"
            return Finding(verdict, words, f"{_size(folder)}, {rad}, {drq}", reason, command)
    return not_run(costs.rad(results))


def better_than(others: Sequence[str], tasks: Sequence[str]) -> Find:
    """Compares RAD + RE3 with RAD and other bonuses; it must be better in most of all pairs."""
    needed = len(others) * len(tasks) // 2 + 1

    def find(results: Results) -> Finding:
        for folder, reproduced in BONUS_FOLDERS.items():
            found = {
                (task, other): rows
                for task in tasks
                for other in others
                if (rows := _rows(results, folder, task, "RAD + RE3", f"RAD + {other}"))
            }
            if not found:
                continue
            compared = {pair: _above(*rows) for pair, rows in found.items()}
            verdict, reason = _judged(compared.values(), rules.wins(needed), reproduced)
            words = "; ".join(
                f"{task}: {_return(ours)} against {other} {_return(theirs)}"
                + rules.in_words(compared[task, other], "a larger area")
                for (task, other), (ours, theirs) in found.items()
            )
            seeds = min(int(row["seeds"]) for rows in found.values() for row in rows)
            ran_tasks, ran_others = (dict.fromkeys(names) for names in zip(*found, strict=True))
            ran = f"{_size(folder)}, {len(ran_tasks)} of {len(tasks)} tasks, at least {seeds} seeds"
            ran += " (RE3's from seed 2: 1 chose the size)" * _leaves_out_seed_1(
                folder, [*ran_tasks]
            )
            names = " ".join(name for name in BONUSES if labels.of_bonus(name)[3:] in ran_others)
            run = partial(_command, folder, [*ran_tasks], "rad")
            ours, theirs = zip(*found.values(), strict=True)
            # The others have seed 1: `small` was not chosen with them.
            of_others = run(theirs, f" --bonuses {names}", chose_size=False)
            command = f"{run(ours, ' --bonuses re3')}; {of_others}"
            return Finding(verdict, words, ran, reason, command)
        return not_run(costs.rad(results))

    return find


def _above(ours: Row, theirs: Row) -> rules.Comparison | None:
    """How probably RE3's area is larger than another's, whose row has how probably its own is."""
    found = rules.by_column(theirs, ours, "larger_area_than_re3")
    return found and found.turned()


_of_dreamer = partial(
    with_and_without_re3, label="Dreamer", folders=DREAMER_FOLDERS, cost=costs.dreamer
)


def _run(bonus: str, task: str = "hopper_hop", more: str = "") -> str:
    return f"make run ENV={task} BONUS={bonus} PRESET=released{more}"


def _each(item: str, statement: str, tasks: Sequence[str]) -> tuple[Entry, ...]:
    """An entry for each task of a figure of RAD with and without RE3."""
    return tuple(
        Entry(
            item,
            f"{statement}: {task}.",
            _command(PAPERS_SIZE, [task], "rad"),
            with_and_without_re3([task]),
        )
        for task in tasks
    )


ONLINE = (
    *_each("Figure 4", "RE3 consistently improves the sample-efficiency of RAD", MAIN_TASKS),
    Entry(
        "Section 4.1",
        f"RAD + RE3 reaches {SCORE} on Cheetah Run Sparse.",
        _command(PAPERS_SIZE, [SPARSE_TASK], "rad"),
        _states_its_score,
    ),
    Entry(
        "Section 4.1",
        "RAD and DrQ fail to solve Cheetah Run Sparse.",
        _command(PAPERS_SIZE, [SPARSE_TASK], "drq"),
        _fail,
    ),
    Entry(
        "Figure 4",
        "RE3 improves the sample-efficiency of Dreamer on most of these tasks.",
        _command(PAPERS_SIZE, [SPARSE_TASK], "dreamer"),
        _of_dreamer(MAIN_TASKS, judge=rules.wins(len(MAIN_TASKS) // 2 + 1)),
    ),
)

OTHER_ENCODERS = (
    Entry(
        "Figure 5",
        "A random encoder does better than one learned by contrastive learning.",
        _run("contrastive"),
        better_than(["SE w/ Contrastive"], MAIN_TASKS),
    ),
    Entry(
        "Figure 5",
        "A random encoder does better than one learned by inverse dynamics.",
        _run("inverse_dynamics"),
        better_than(["SE w/ Inverse dynamics"], MAIN_TASKS),
    ),
    Entry(
        "Figure 5",
        "A random encoder does better than ResNet-50 trained on ImageNet.",
        _run("imagenet", more=' ARGS="--bonus.weights resnet50.safetensors"'),
        better_than(["SE w/ ImageNet"], MAIN_TASKS),
    ),
    Entry(
        "Appendix A.2",
        "RAD + SE w/ ATC: an encoder pre-trained on other tasks of the suite (three tasks).",
        _run("atc", more=' ARGS="--bonus.weights params.pkl"'),
        never("the weights of ATC's authors are not public; the bonus reads rlpyt's snapshots"),
    ),
)

OTHER_BONUSES = (
    Entry(
        "Figure 6",
        "RAD + RE3 is more sample-efficient than RAD + RND and RAD + ICM on most tasks.",
        _run("rnd"),
        better_than(["RND", "ICM"], MAIN_TASKS),
    ),
)

IMPROVED, DENSE = ("reacher_hard", "hopper_stand"), "cartpole_balance"
"""Tasks that Appendix B names: improved, and not degraded."""

OTHER_TASKS = (
    *("acrobot_swingup", "ball_in_cup_catch", "cartpole_swingup", "finger_spin"),
    *("walker_run", "walker_walk"),
)
"""The other tasks of Figure 14."""

SEVERAL = 2

MORE_TASKS = (
    *_each("Figure 14", "RE3 improves the sample-efficiency of RAD", IMPROVED),
    Entry(
        "Figure 14",
        f"RE3 does not degrade tasks with dense rewards: {DENSE}.",
        _command(PAPERS_SIZE, [DENSE], "rad"),
        with_and_without_re3([DENSE], judge=rules.not_worse),
    ),
    Entry(
        "Figure 14",
        "RE3 improves the sample-efficiency of RAD in several of the other six tasks.",
        _command(PAPERS_SIZE, [OTHER_TASKS[0]], "rad"),
        with_and_without_re3(OTHER_TASKS, judge=rules.wins(SEVERAL)),
    ),
    Entry(
        "Figure 14",
        "RE3 improves the sample-efficiency of Dreamer in several of the nine tasks.",
        _command(PAPERS_SIZE, [IMPROVED[0]], "dreamer"),
        _of_dreamer((*IMPROVED, DENSE, *OTHER_TASKS), judge=rules.wins(SEVERAL)),
    ),
)
