"""Runs side by side: which are one row, what tells rows apart, and their statistics."""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flax.traverse_util import flatten_dict
from matplotlib.axes import Axes

from re3_jax.envs.registry import PAPER_TASKS
from re3_jax.runs import curves, labels, run_folder, statistics
from re3_jax.runs.config import is_compared
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError
from re3_jax.runs.option_names import option_name, option_with

POOLED = "seed", "seeds", "chunk_updates"
"""Options that make other runs of the same row; the default of `chunk_updates` follows `seeds`."""

ALIKE = 0.95
"""Rows of one length end at whole chunks and evaluations, and not quite at the same frame."""

BARE = {name: bare for bare, name in PAPER_TASKS.items()}
KIND = ("env", "agent", "bonus", "preset")

Options = dict[str, Any]
"""Dotted name -> value."""

Panels = Mapping[str, Sequence[Curve]]
"""Task -> its rows."""


def divides(option: str) -> bool:
    """Whether runs with other values of an option, dotted, are of different rows."""
    return is_compared(option) and option not in POOLED


class Row(NamedTuple):
    """Runs that differ only in options that do not divide them.

    Attributes:
      options: all others.
      folders: of the runs, in the order in which they were given.
      curve: evaluation returns of all their seeds, under the label of the row.
    """

    options: Options
    folders: list[Path]
    curve: Curve

    @property
    def task(self) -> str:
        """The paper's name where there is one."""
        return str(self.options["env"])


def rows_of(folders: Iterable[Path]) -> list[Row]:
    """The rows, in the order of the folders; a `UsageError` if some cannot be compared."""
    pooled: dict[str, tuple[Options, list[Path]]] = {}
    files: dict[str, str] = {}
    for folder in folders:
        every = flatten_dict(run_folder.config_with(KIND, folder), sep=".")
        options = {name: value for name, value in every.items() if divides(name)}
        options["env"] = BARE.get(options["env"], options["env"])
        # Of a file its contents count, not where it is.
        for name, digest in run_folder.digests_of(folder).items():
            if options.get(name) is not None:
                label = f"{Path(options[name]).name} ({digest[:8]})"
                options[name] = files.setdefault(digest, label)
        key = json.dumps(options, sort_keys=True)
        pooled.setdefault(key, (options, []))[1].append(folder)
    rows = []
    for options, alike in pooled.values():
        label = _label(options, [other for other, _ in pooled.values()])
        refuse_repeated_seeds(label, alike)
        rows.append(Row(options, alike, curves.load(label, alike)))
    for task, panel in panels_of(rows).items():
        if shared_end(panel) <= max(row.env_frames[0] for row in panel):
            raise UsageError(
                f"the runs of {task} were not evaluated twice over the same env frames: train them "
                "further, or leave one out"
            )
    return rows


def panels_of(rows: Iterable[Row]) -> dict[str, list[Curve]]:
    """Task -> the curves of its rows."""
    panels: dict[str, list[Curve]] = {}
    for row in rows:
        panels.setdefault(row.task, []).append(row.curve)
    return panels


def shared_end(rows: Iterable[Curve]) -> int:
    """The last env frame that all rows reached."""
    return int(min(row.env_frames[-1] for row in rows))


def differences(rows: Sequence[Options]) -> list[str]:
    """The options in which some of the rows differ; one that a row lacks differs from every value.

    The run of another version may lack an option.
    """
    names = dict.fromkeys(name for options in rows for name in options)
    # No value equals `...`.
    return [name for name in names if len({str(row.get(name, ...)) for row in rows}) > 1]


def _label(options: Options, every: Iterable[Options]) -> str:
    kind = itemgetter(*KIND)
    several = len({other["preset"] for other in every}) > 1
    label = labels.of(options["agent"], options["bonus"]) + several * f" ({options['preset']})"
    different = differences([other for other in every if kind(other) == kind(options)])
    for name, value in options.items():
        # How a run began is said even if all rows began like this.
        if value is not None if name in ("pretrain", "init") else name in different:
            label += f" {option_with(name, value)}"
    return label


def refuse_repeated_seeds(label: str, folders: Iterable[Path]) -> None:
    """Refuses runs of one row that share a seed, which would narrow the intervals, or have none."""
    owners: dict[str, Path] = {}
    for folder in folders:
        seeds = curves.read(folder / "eval.csv", "return_mean")
        if not seeds:
            raise UsageError(f"{folder} has no evaluation yet: train it further or leave it out")
        for seed in seeds:
            if owners.setdefault(seed, folder) is not folder:
                raise UsageError(
                    f"{owners[seed]} and {folder} both hold seed {seed} of {label}: leave one out"
                )


def draw_profiles(axes: Axes, rows: Sequence[Curve], title: str) -> None:
    """The share of each row's seeds above every return, at the last frame that all reached."""
    frame = shared_end(rows)
    finals = [curves.at(row, frame) for row in rows]
    low, high = np.min(np.hstack(finals)), np.max(np.hstack(finals))
    margin = 0.05 * (high - low) or 0.05
    tau = np.linspace(low - margin, high + margin, 201)
    profile: Callable[..., np.ndarray] = functools.partial(
        statistics.performance_profile, thresholds=tau
    )
    bands = [statistics.bootstrap_interval(profile, final) for final in finals]
    curves.draw_lines(axes, rows, [tau] * len(rows), [*map(profile, finals)], bands)
    axes.set(
        title=title,
        xlabel=f"return at env frame {frame:,}",
        ylabel="share of seeds above it (95% band)",
    )


def table(panels: Panels) -> list[dict[str, str]]:
    """The lines of table.csv: statistics of each row, with 95% intervals.

    They include how probably a run of the row ends above one of its task's first row.
    """
    rows = [(task, row, panel[0]) for task, panel in panels.items() for row in panel]
    pairs = [(row, None if row is first else first) for _, row, first in rows]
    before = {"task": [task for task, *_ in rows], **curves.better_than("first", pairs)}
    header, lines = curves.table([row for _, row, _ in rows], **before)
    return [dict(zip(header, map(str, line), strict=True)) for line in lines]


def readable(lines: Iterable[Mapping[str, str]]) -> list[list[str]]:
    """The cells of a short form of `table`, numbers with their intervals; the header first."""
    with_intervals = ("mean (95%)", "IQM (95%)", "better than first (95%)")
    cells = [["task", "label", "seeds", "env frames", *with_intervals, "p"]]
    for row in lines:
        numbers = []
        for name in ("final_return_mean", "final_return_iqm", "better_than_first"):
            ends = [f"{float(row[name + end] or 'nan'):.4g}" for end in ("", "_low", "_high")]
            interval = "" if row["seeds"] == "1" else f" ({ends[1]} to {ends[2]})"
            numbers.append(ends[0] + interval if row[name] else "-")
        frames = f"{int(row['env_frames']):,}"
        p_value = f"{float(row['better_than_first_p']):.2g}" if row["better_than_first_p"] else "-"
        cells.append([row["task"], row["label"], row["seeds"], frames, *numbers, p_value])
    return cells


def notes(lines: Sequence[Mapping[str, str]]) -> list[str]:
    """What a reader of `table` must know, in sentences.

    Rows of too few seeds, those that go on from another run, and ends that differ.
    """
    single: list[str] = []
    ends: dict[str, list[int]] = {}
    begun = {row["task"]: None for row in lines if f" {option_name('init')} " in row["label"]}
    for row in lines:
        if row["seeds"] == "1":
            single.append(f"{row['label']} on {row['task']}")
        ends.setdefault(row["task"], []).append(int(row["env_frames"]))
    found = []
    if single:
        found.append(f"one seed is no comparison: train more seeds of {' and of '.join(single)}")
    found += [
        f"rows of {task} with {option_name('init')} go on from another run, whose env frames are "
        "not counted"
        for task in begun
    ]
    found += [
        f"rows of {task} end at {min(of_task):,} to {max(of_task):,} env frames: means and areas "
        "are up to a row's own end, comparisons up to the earlier end of the two"
        for task, of_task in ends.items()
        if min(of_task) < ALIKE * max(of_task)
    ]
    return found
