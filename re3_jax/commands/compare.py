"""Compares runs: learning curves, performance profiles, and a table with 95% intervals.

    make compare RUNS="runs/a runs/b"
    python -m re3_jax.commands.compare RUN_DIR RUN_DIR [RUN_DIR ...] [--out FOLDER]

Runs that differ only in their seeds, their length and what they report are one row. Labels name the
options in which rows of the same task, agent, bonus and preset differ. Writes curves.png,
profiles.png and table.csv. The table says how probably a run of each row ends above one of the
task's first row, at the last frame that both reached; a row that was not evaluated there is linear
between its evaluations. Profiles are at the last frame that all rows of a task reached.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

from re3_jax.runs import comparison, curves, installing, run_folder
from re3_jax.runs.errors import Parser, UsageError, in_one_sentence

FILES = ("curves.png", "profiles.png", "table.csv")


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Writes the three files and prints the table; returns the exit code (0 or 2)."""
    parser = Parser("python -m re3_jax.commands.compare")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, default=run_folder.RUNS / "compare", metavar="FOLDER")
    words = parser.parse_args(argv)
    paths = curve_file, profile_file, table_file = [words.out / name for name in FILES]
    folders = run_folder.of_runs(words.runs, words.out)
    if len(folders) < 2:
        example = installing.example("compare", "RUNS", "runs/a runs/b")
        one = shlex.quote(str(folders[0])) if folders else "runs/a"
        alone = installing.example("report", "RUNS", one)
        raise UsageError(f"give two runs or more, as in {example}; a single one has {alone}")
    panels = comparison.panels_of(comparison.rows_of(folders))
    # The profiles are written first, and only here: a folder without them is not a comparison's.
    run_folder.make_empty(words.out, FILES if profile_file.exists() else (), "a comparison")
    # A dollar sign in the name of a folder is no formula.
    with matplotlib.rc_context({"text.parse_math": False}):
        profiles = curves.draw_panels(panels, (4.8, 3.9), across=3, panel=comparison.draw_profiles)
        profiles.savefig(profile_file)
        curves.draw_panels(panels, (4.8, 3.9), across=3).savefig(curve_file)
    lines = comparison.table(panels)
    curves.write_csv(table_file, [*lines[0]], [[*line.values()] for line in lines])
    print(aligned(comparison.readable(lines)))
    print(*comparison.notes(lines), *paths, sep="\n")
    return 0


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """A table for the terminal."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


if __name__ == "__main__":
    sys.exit(main())
