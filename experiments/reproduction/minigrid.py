"""Section 4.2 and Appendices C, G: A2C on MiniGrid (Figures 11, 12 and 16)."""

from collections.abc import Sequence

from experiments.figures.minigrid import PRETRAINING_FRAMES, TASKS, VARIANTS
from experiments.reproduction import rules
from experiments.reproduction.entry import (
    Entry,
    Find,
    Finding,
    Verdict,
    not_run,
    tested,
)
from experiments.reproduction.results import Results, Row, interval, seeds_and_frames
from re3_jax.runs.curves import Curve, areas
from re3_jax.runs.presets.minigrid import FINE_TUNING_BETA
from re3_jax.runs.presets.minigrid import TASKS as OF_TABLE

COMMAND = "make figure FIG=minigrid"
RELEASED = 'make figure FIG=minigrid ARGS="--presets released paper --rows none re3"'
FOLDER = "results/minigrid"
FRESH = "empty_16x16_seeds_11_to_40", "seeds_11_to_40", "doorkey_8x8_seeds_11_to_40"
"""Folders in `FOLDER` with seeds that chose nothing; they count where they have both rows."""

SEEDS = {True: "seeds 11 to 40 (they chose nothing)", False: "seeds 1 to 10"}
"""Of fresh results and of others."""

PRESET = "recommended"
"""Its weights are the best of a search over the paper's nine values, as in the paper's figure."""

DOORKEY = ("doorkey_6x6", "doorkey_8x8")
HARDEST = "doorkey_8x8"

Pair = tuple[Curve, Curve, bool]
"""Evaluations of two rows with the same seeds, and whether these are fresh."""

RE3_SCORE, ICM_SCORE = 0.49, 0.20
"""Returns on DoorKey-8x8 at 2,400,000 frames in the text of Section 4.2."""


def _pair(results: Results, task: str, ours: str, theirs: Sequence[str]) -> Pair | None:
    """Two rows of the figure, pre-training on the axis.

    Args:
      results: the committed ones.
      task: as in the names of files.
      ours: name of a row.
      theirs: names of a row; the first that exists counts.
    """
    for folder in (*(f"{FOLDER}/{name}" for name in FRESH), FOLDER):

        def curve(name: str, folder: str = folder) -> Curve | None:
            before = _frames_before(results, folder, task, name)
            return results.curve(f"{folder}/{PRESET}-{task}-{name}.csv", before)

        second = next(filter(None, map(curve, theirs)), None)
        if second and (first := curve(ours)):
            return first, second, folder != FOLDER
    return None


def _frames_before(results: Results, folder: str, task: str, name: str) -> int:
    """Env frames of a row's pre-training, which ends with a whole chunk."""
    asked = PRETRAINING_FRAMES if "_pt" in name else 0
    # Not every row of older results is one of the figure's today.
    label = VARIANTS[name].label if name in VARIANTS else ""
    row = results.row(f"{folder}/{PRESET}.csv", task=task, label=label) or {}
    return int(row.get("pretraining_frames", asked))


def _versus(
    ours: str,
    theirs: str | Sequence[str],
    tasks: Sequence[str],
    needed: int | None = None,
    are_alike: bool = False,
) -> Find:
    """Compares areas under the curves of two rows of the figure, task by task.

    Args:
      ours: the name of a row.
      theirs: the name of a row, or names of which the first that exists counts.
      tasks: those that the statement is about.
      needed: on how many of them ours must be better; by default on all.
      are_alike: the statement is that there is no difference.
    """
    names = (theirs,) if isinstance(theirs, str) else theirs

    def find(results: Results) -> Finding:
        pairs = {task: _pair(results, task, ours, names) for task in tasks}
        found = {task: pair for task, pair in pairs.items() if pair}
        if len(found) < len(tasks):
            return not_run("no committed result of one of the rows")
        compared = {task: rules.by_area(*pair[:2]) for task, pair in found.items()}
        every = [*compared.values()]
        if are_alike:
            verdict, reason = rules.alike(every, Verdict.REPRODUCED)
        else:
            verdict, reason = rules.better(every, needed or len(tasks), Verdict.REPRODUCED)
        words = "; ".join(
            f"{TASKS[task]}: {_area(found[task][0], found[task])} against "
            f"{_area(found[task][1], found[task])} ({one.seeds} seeds)"
            + rules.in_words(one, "larger")
            for task, one in compared.items()
        )
        kinds = {is_fresh for *_, is_fresh in found.values()}
        seeds = " and ".join(SEEDS[kind] for kind in sorted(kinds, reverse=True))
        none = " (400,000 on Empty-16x16, for which it gives none)" * ("empty_16x16" in found)
        ran = f"preset {PRESET}, the paper's frames{none}, {seeds}"
        return Finding(verdict, f"area under the curve on {words}", ran, reason)

    return find


def _area(curve: Curve, pair: Pair) -> str:
    """Up to the earlier end of the two; rows of one length end at whole chunks of their own."""
    end = int(min(each.env_frames[-1] for each in pair[:2]))
    return f"{areas(curve, end).mean():.3f}"


def _pretrainings(results: Results) -> Finding:
    """The paper's rows, in which RE3 alone keeps its bonus, and those without a bonus in either."""
    contrastive = "contrastive_pt_only", "contrastive_pt"
    found = _versus("re3_pt", contrastive, DOORKEY)(results)
    if found.verdict is Verdict.NOT_RUN:
        return found
    bare = _versus("re3_pt_only", contrastive, DOORKEY)(results)
    words = f"{found.result}. As in the paper, RE3 alone keeps its bonus while fine-tuning"
    reason = found.reason
    if bare.verdict is not Verdict.NOT_RUN:
        words += f"; without one in either, {bare.result}"
        if found.verdict is Verdict.REPRODUCED is not bare.verdict:
            reason = "where RE3 keeps its bonus, not where neither does"
    return found._replace(result=words, reason=reason)


def _hardest(results: Results, label: str) -> tuple[Row, str] | None:
    """A row of the table on DoorKey-8x8, of fresh seeds where it has them, and what ran."""
    for folder in (*(f"{FOLDER}/{name}" for name in FRESH), FOLDER):
        row = results.row(f"{folder}/{PRESET}.csv", task=HARDEST, label=label)
        if row is not None:
            words = f"preset {PRESET}, {seeds_and_frames(row)}, {SEEDS[folder != FOLDER]}"
            return row, words
    return None


def _number(label: str, number: float, also: str = "") -> Find:
    """Compares the return on DoorKey-8x8 at the end with a number in the text of Section 4.2.

    Args:
      label: the row.
      number: the paper's.
      also: another preset, which is mentioned and decides nothing.
    """

    def find(results: Results) -> Finding:
        if (hardest := _hardest(results, label)) is None:
            return not_run("no committed result")
        other = results.row(f"{FOLDER}/{also}.csv", task=HARDEST, label=label)
        row, ran = hardest
        found, seeds = interval(row), int(row["seeds"])
        verdict, reason = rules.contains(found, seeds, number, Verdict.REPRODUCED)
        words = f"{found} against {number:.2f}"
        words += f"; {interval(other)} with `{also}`, {SEEDS[False]}" if other else ""
        return Finding(verdict, words, ran, reason)

    return find


def _is_trivial(label: str) -> Find:
    def find(results: Results) -> Finding:
        if (hardest := _hardest(results, label)) is None:
            return not_run("no committed result")
        row, ran = hardest
        found, seeds = interval(row), int(row["seeds"])
        verdict, reason = rules.below(found, seeds, ICM_SCORE, Verdict.REPRODUCED)
        words = f"{found}; trivial is below ICM's {ICM_SCORE:.2f}"
        if row.get("beta"):
            printed = OF_TABLE[TASKS[HARDEST]]["rnd.beta"]
            words += f". The searched weight is {row['beta']}, that of Table 3 is {printed:g}"
        return Finding(verdict, words, ran, reason)

    return find


def _table_to_the_letter(results: Results) -> Finding:
    rows = {
        task: results.row(f"{FOLDER}/paper.csv", task=task, label="A2C + RE3") for task in TASKS
    }
    found = {task: row for task, row in rows.items() if row}
    epsilon = results.row("results/minigrid_deviations/table.csv", label="paper, RMSprop eps 1e-8")
    if len(found) < len(rows) or epsilon is None:
        return not_run("no committed result")
    hardest = found[HARDEST]
    seeds = int(hardest["seeds"])
    verdict, reason = rules.contains(interval(hardest), seeds, RE3_SCORE, Verdict.REPRODUCED)
    words = "; ".join(f"{TASKS[task]} {interval(row)}" for task, row in found.items())
    words += (
        ". On DoorKey-6x6 RMSprop's epsilon of 0.01 is the reason: with 1e-8 it ends at "
        f"{interval(epsilon)} ({epsilon['seeds']} other seeds), see "
        "[Deviations](deviations.md#which-of-them-decides)"
    )
    ran = f"preset paper, seeds 1 to {seeds} (the command takes others now)"
    return Finding(verdict, words, ran, reason, f"{RELEASED}; make figure FIG=minigrid_deviations")


def _searched_weights(results: Results) -> Finding:
    report = results.json("results/minigrid_betas/recommended.json")
    if report is None:
        return not_run("no committed result")
    searched = report["searched"]
    printed = {
        task: {name: OF_TABLE[title][f"{name}.beta"] for name in ("re3", "rnd", "icm")}
        | {"re3_pt": FINE_TUNING_BETA[title]}
        for task, title in TASKS.items()
    }
    cells = [
        (found["beta"], printed[task][name])
        for task, rows in searched.items()
        for name, found in rows.items()
        if name in printed[task]
    ]
    same = sum(ours == theirs for ours, theirs in cells)
    is_same = same == len(cells)
    seeds = {
        seed for rows in searched.values() for found in rows.values() for seed in found["seeds"]
    }
    return Finding(
        Verdict.REPRODUCED if is_same else Verdict.NOT_REPRODUCED,
        f"the same weight as in Table 3 in {same} of {len(cells)} cells; all scores are in "
        "`results/minigrid_betas/recommended.json`",
        f"nine values for each cell, {len(seeds)} seeds that no figure plots",
        "" if is_same else f"by one search of {len(seeds)} seeds, which no test compares",
        "make figure FIG=minigrid_betas",
    )


MAIN = (
    Entry(
        "Figure 12",
        "The tasks Empty-16x16, DoorKey-6x6 and DoorKey-8x8 with views of 7x7x3.",
        "",
        tested(
            "every view, reward and end equals Farama's `minigrid`, with the same layouts",
            "tests/parity/test_minigrid.py::test_thousands_of_episodes_equal_farama",
            "tests/parity/test_minigrid_layouts.py::test_layouts_are_distributed_as_faramas",
        ),
    ),
    Entry(
        "Figure 11",
        "RE3 improves the sample-efficiency of A2C in most tasks.",
        COMMAND,
        _versus("re3", "none", [*TASKS], needed=2),
    ),
    Entry(
        "Figure 11",
        "RE3 is more effective than RND in most tasks.",
        COMMAND,
        _versus("re3", "rnd", [*TASKS], needed=2),
    ),
    Entry(
        "Figure 11",
        "RE3 is more effective than ICM in most tasks.",
        COMMAND,
        _versus("re3", "icm", [*TASKS], needed=2),
    ),
    Entry(
        "Section 4.2",
        f"A2C + RE3 reaches {RE3_SCORE} on DoorKey-8x8 at 2.4 million frames.",
        COMMAND,
        _number("A2C + RE3", RE3_SCORE, also="released"),
    ),
    Entry(
        "Section 4.2",
        f"A2C + ICM reaches {ICM_SCORE:.2f} there.",
        COMMAND,
        _number("A2C + ICM", ICM_SCORE),
    ),
    Entry("Section 4.2", "A2C fails there.", COMMAND, _is_trivial("A2C")),
    Entry("Section 4.2", "A2C + RND fails there.", COMMAND, _is_trivial("A2C + RND")),
    Entry(
        "Figure 11",
        "RE3 with pre-training significantly improves on A2C in the DoorKey tasks.",
        COMMAND,
        _versus("re3_pt", "none", DOORKEY),
    ),
    Entry(
        "Figure 11",
        "Pre-training further improves A2C + RE3.",
        COMMAND,
        _versus("re3_pt", "re3", DOORKEY),
    ),
)

DETAILS = (
    Entry(
        "Table 3",
        "Hyperparameters of MiniGrid.",
        "",
        tested(
            "`PRESET=paper` has every number that A2C uses",
            "tests/cli/test_options.py::test_table",
            "tests/cli/test_options.py::test_rows_that_differ_between_tasks",
            "tests/cli/test_bonus_presets.py::test_minigrid",
        ),
    ),
    Entry(
        "Table 3",
        f"With these, A2C + RE3 learns the tasks ({RE3_SCORE} on DoorKey-8x8).",
        RELEASED,
        _table_to_the_letter,
    ),
    Entry(
        "Appendix C",
        "Search of beta over nine values for RE3, ICM and RND; Table 3 has the best.",
        "make figure FIG=minigrid_betas",
        _searched_weights,
    ),
    Entry(
        "Appendix C",
        "Architecture: three 2x2 convolutions of 16, 32 and 64 filters, heads of 64 units.",
        "",
        tested(
            "agent and random encoder equal PyTorch's",
            "tests/parity/test_random_encoder.py::test_minigrid_features_equal_pytorch",
            "tests/parity/test_a2c.py::test_two_updates_equal_pytorch",
        ),
    ),
)

CONTRASTIVE = (
    Entry(
        "Figure 16",
        "Pre-training with a random encoder outperforms pre-training with a contrastive one.",
        COMMAND,
        _pretrainings,
    ),
    Entry(
        "Appendix G",
        "A bonus while fine-tuning makes little difference after contrastive pre-training.",
        COMMAND,
        _versus("apt_pt", "apt_pt_only", DOORKEY, are_alike=True),
    ),
)
