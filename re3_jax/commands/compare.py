"""Compares runs: learning curves, performance profiles, and a table with 95% intervals.

    make compare RUNS="runs/a runs/b"
    python -m re3_jax.commands.compare RUN_DIR RUN_DIR [RUN_DIR ...] [--out FOLDER]

Runs that differ only in their seeds, their length and what they report are one row. Labels name the
options in which rows of the same task, agent, bonus and preset differ. Writes curves.png,
profiles.png and table.csv. The table says how probably a run of each row ends above one of the
task's first row, at the last evaluation of both. Profiles are at the last one of all its rows.
"""

import argparse
import csv
import functools
import json
import sys
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict
from jaxtyping import Int
from matplotlib.axes import Axes

from re3_jax.envs.registry import PAPER_TASKS
from re3_jax.runs import curves, run_folder, statistics
from re3_jax.runs.config import NOT_COMPARED_ON_RESUME, option_with
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError, in_one_sentence

POOLED = {*NOT_COMPARED_ON_RESUME, "seed", "seeds", "chunk_updates"}
"""Options in which runs of one row may differ; the default of `chunk_updates` follows `seeds`."""

BARE = {name: bare for bare, name in PAPER_TASKS.items()}
KIND = ("env", "agent", "bonus", "preset")
FILES = ("curves.png", "profiles.png", "table.csv")

Options = dict[str, Any]
"""Dotted name -> value."""


def panels_of(folders: Iterable[Path]) -> dict[str, list[Curve]]:
    """Task -> its rows, in the order of the folders; a UsageError if some cannot be compared."""
    pooled: dict[str, tuple[Options, list[Path]]] = {}
    for folder in folders:
        every = flatten_dict(run_folder.config_with(KIND, folder), sep=".")
        options = {name: value for name, value in every.items() if name not in POOLED}
        options["env"] = BARE.get(options["env"], options["env"])
        key = json.dumps(options, sort_keys=True)
        pooled.setdefault(key, (options, []))[1].append(folder)
    panels: dict[str, list[Curve]] = {}
    for options, alike in pooled.values():
        label = _label(options, [other for other, _ in pooled.values()])
        _refuse_repeated_seeds(label, alike)
        panels.setdefault(options["env"], []).append(curves.load(label, alike))
    for task, rows in panels.items():
        if shared_frames(rows).size < 2:
            raise UsageError(
                f"the runs of {task} have fewer than 2 evaluated frames in common: train them "
                "further, or give runs that were evaluated equally often"
            )
    return panels


def shared_frames(rows: Iterable[Curve]) -> Int[np.ndarray, " point"]:
    """The env frames at which all rows were evaluated."""
    return functools.reduce(np.intersect1d, (row.env_frames for row in rows))


def _label(options: Options, every: Iterable[Options]) -> str:
    kind = itemgetter(*KIND)
    bonus = "" if options["bonus"] == "none" else f" + {options['bonus'].upper()}"
    several = len({other["preset"] for other in every}) > 1
    label = options["agent"].upper() + bonus + several * f" ({options['preset']})"
    for name, value in options.items():
        # The run of another version may lack an option; no value equals `...`.
        others = {str(other.get(name, ...)) for other in every if kind(other) == kind(options)}
        # How a run began is said even if all rows began like this.
        if value is not None if name in ("pretrain", "init") else len(others) > 1:
            label += f" {option_with(name, value)}"
    return label


def _refuse_repeated_seeds(label: str, folders: Iterable[Path]) -> None:
    """A seed that counted twice would narrow the intervals."""
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
    """The share of each row's seeds above every return, at the last frame of all rows."""
    frame = shared_frames(rows)[-1]
    finals = [row.returns[:, row.env_frames == frame].ravel() for row in rows]
    low, high = np.min(np.hstack(finals)), np.max(np.hstack(finals))
    margin = 0.05 * (high - low) or 0.05
    tau = np.linspace(low - margin, high + margin, 201)
    profile = functools.partial(statistics.performance_profile, thresholds=tau)
    bands = [statistics.bootstrap_interval(profile, final) for final in finals]
    curves.draw_lines(axes, rows, [tau] * len(rows), [*map(profile, finals)], bands)
    axes.set(
        title=title,
        xlabel=f"return at env frame {frame:,}",
        ylabel="share of seeds above it (95% band)",
    )


def readable(table: Path) -> str:
    """A table for the terminal, and which rows have too few seeds to compare."""
    with_intervals = ("mean (95%)", "IQM (95%)", "better than first (95%)")
    cells, single = [["task", "label", "seeds", "env frames", *with_intervals]], []
    with table.open(newline="") as lines:
        for row in csv.DictReader(lines):
            frames, one_seed = f"{int(row['env_frames']):,}", row["seeds"] == "1"
            single += [f"{row['label']} on {row['task']}"] * one_seed
            numbers = []
            for name in ("final_return_mean", "final_return_iqm", "better_than_first"):
                ends = [f"{float(row[name + end] or 'nan'):.4g}" for end in ("", "_low", "_high")]
                interval = "" if one_seed else f" ({ends[1]} to {ends[2]})"
                numbers.append(ends[0] + interval if row[name] else "-")
            cells.append([row["task"], row["label"], row["seeds"], frames, *numbers])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    if single:
        text.append(f"one seed is no comparison: train more seeds of {' and of '.join(single)}")
    return "\n".join(text)


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Writes the three files and prints the table; returns the exit code (0 or 2)."""
    parser = argparse.ArgumentParser("python -m re3_jax.commands.compare")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, default=run_folder.RUNS / "compare", metavar="FOLDER")
    words = parser.parse_args(argv)
    paths = curve_file, profile_file, table = [words.out / name for name in FILES]
    # RUNS="runs/*" also names the folder of an earlier comparison.
    folders = [folder for folder in words.runs if folder.resolve() != words.out.resolve()]
    if len(folders) < 2:
        raise UsageError('give two runs or more, as in make compare RUNS="runs/a runs/b"')
    panels = panels_of(folders)
    # The profiles are written first, and only here: a folder without them is not a comparison's.
    run_folder.make_empty(words.out, FILES if profile_file.exists() else (), "a comparison")
    profiles = curves.draw_panels(panels, (4.8, 3.9), across=3, panel=draw_profiles)
    profiles.savefig(profile_file)
    curves.draw_panels(panels, (4.8, 3.9), across=3).savefig(curve_file)
    rows = [(task, row, panel[0]) for task, panel in panels.items() for row in panel]
    pairs = [(row, None if row is first else first) for _, row, first in rows]
    tasks = [task for task, *_ in rows]
    curves.write_table(
        [row for _, row, _ in rows], table, task=tasks, **curves.better_than("first", pairs)
    )
    print(readable(table), *paths, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
