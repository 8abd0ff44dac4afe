"""One HTML file about a run, or about several side by side; it opens without a network.

    make report RUNS="runs/a runs/b"
    python -m re3_jax.commands.report RUN_DIR [RUN_DIR ...] [--out FILE.html]

Curves, performance profiles and the table are those of `compare`, which also says which runs are
one row. Besides: the options in which rows differ, the newest video of each row, the columns of
train.csv, where each run ran, and its whole configuration.
"""

import functools
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib

from re3_jax.runs import (
    comparison,
    curves,
    html_page,
    installing,
    run_folder,
    summary,
    training_curves,
)
from re3_jax.runs.bonuses import BONUSES, PLUS
from re3_jax.runs.comparison import Row
from re3_jax.runs.errors import Parser, UsageError, in_one_sentence
from re3_jax.runs.html_page import Html, element
from re3_jax.runs.option_names import option_name
from re3_jax.training.whole_file import replacing

MAKER = "re3_jax report"

LARGEST_VIDEO = 8 * 2**20
"""Bytes of a video that is put into the page; a longer one is named."""

PANEL = (4.8, 3.6)
"""Inches of one panel of curves."""


def page(folders: Sequence[Path]) -> str:
    """The document.

    Raises:
      UsageError: a folder holds no run, or the runs cannot be compared.
    """
    rows = comparison.rows_of(folders)
    panels = comparison.panels_of(rows)
    labels = list(dict.fromkeys(row.curve.label for row in rows))
    several = f"{len(labels)} rows" if len(labels) > 3 else ", ".join(labels)
    title = f"{', '.join(panels)}: {several}"
    # A label is a name, in which a dollar sign begins no formula.
    with matplotlib.rc_context({"text.parse_math": False}):
        sections = [
            _returns(panels),
            *_differences(rows),
            *_videos(rows),
            *_training(rows, panels),
            _runs(rows),
            _configurations(rows),
        ]
        return html_page.page(title, MAKER, *sections)


def _returns(panels: comparison.Panels) -> Html:
    lines = comparison.table(panels)
    header, *cells = comparison.readable(lines)
    draw = functools.partial(curves.draw_panels, panels, PANEL, across=2, dpi=150)
    pictures = [html_page.picture(draw(), "evaluation return over env frames, by task")]
    if any(len(panel) > 1 for panel in panels.values()):
        profiles = draw(panel=comparison.draw_profiles)
        pictures.append(html_page.picture(profiles, "share of seeds above every return, by task"))
    parts = [
        html_page.table(header, cells),
        *(element("p", note, class_="note") for note in comparison.notes(lines)),
        *(element("figure", picture) for picture in pictures),
    ]
    values = ([*line.values()] for line in lines)
    parts.append(html_page.folded("all numbers", html_page.table([*lines[0]], values)))
    return html_page.section("Evaluation return", *parts)


def _differences(rows: Sequence[Row]) -> Iterator[Html]:
    """The options in which rows differ."""
    names = comparison.differences([row.options for row in rows])
    if names:
        header = ["option", *(f"{row.curve.label}, {row.task}" for row in rows)]
        cells = (
            [option_name(name), *(_written(row.options.get(name, "-")) for row in rows)]
            for name in names
        )
        yield html_page.section("Differences of configuration", html_page.table(header, cells))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _videos(rows: Sequence[Row]) -> Iterator[Html]:
    """The newest video of each row that has one."""
    parts = []
    for row in rows:
        newest = run_folder.newest_video(row.folders)
        if newest is None:
            continue
        size, name = newest.stat().st_size, f"{row.curve.label}, {row.task}: {newest}"
        if size > LARGEST_VIDEO:
            larger = f"{name} has {size / 2**20:.0f} MiB, which is too much for this page"
            parts.append(element("p", larger, class_="note"))
        else:
            parts.append(element("figure", html_page.film(newest), element("figcaption", name)))
    if parts:
        yield html_page.section("Newest video", *parts)


def _training(rows: Sequence[Row], panels: comparison.Panels) -> Iterator[Html]:
    """The columns of train.csv, by task."""
    # NovelD and NGU have a part of RND's; a plugin's bonus is not known here.
    names = {part for row in rows for part in row.options["bonus"].split(PLUS)} | {*BONUSES}
    of_bonus: list[Html] = []
    others: list[Html] = []
    for task in panels:
        columns = [
            (row.curve.label, training_curves.of_row(row.curve.label, row.folders))
            for row in rows
            if row.task == task
        ]
        for parts, wanted in ((of_bonus, True), (others, False)):
            if (drawn := training_curves.draw(columns, wanted, names)) is not None:
                words = "columns of train.csv over env frames, one panel for each"
                parts += [element("h3", task), html_page.picture(drawn, words)]
    if of_bonus:
        yield html_page.section("The bonus during training", *of_bonus)
    if others:
        whole = html_page.folded("losses, episodes and other columns of train.csv", *others)
        yield html_page.section("Training", whole)


def _runs(rows: Sequence[Row]) -> Html:
    header = ["folder", "label", "seeds", "env frames", "complete", "frames/s", "hours"]
    cells = [
        [str(folder), row.curve.label, *_of_run(folder)] for row in rows for folder in row.folders
    ]
    return html_page.section("Runs", html_page.table([*header, "device", "commit"], cells))


def _of_run(folder: Path) -> Iterator[str]:
    """What its two JSON files say of a run; a dash for what they do not."""
    config, reached = summary.read(folder, run_folder.CONFIG), summary.read(folder)
    first, seeds = (config["config"].get(name, 1) for name in ("seed", "seeds"))
    steps = config["config"]["steps"]
    yield f"{first} to {first + seeds - 1}" if seeds > 1 else str(first)
    frames, speed = _number(reached, "env_frames"), _number(reached, "frames_per_second")
    seconds = _number(reached, "wall_seconds")
    yield f"{frames:,}" if frames is not None else "-"
    yield "-" if not reached else "yes" if summary.is_complete(reached, steps) else "no"
    yield f"{speed:,.0f}" if speed is not None else "-"
    yield f"{seconds / 3600:.2f}" if seconds is not None else "-"
    yield _word(config, "device", "kind")
    yield _word(config, "git", "commit")[:10]


def _number(found: dict[str, Any], name: str) -> float | None:
    """A number of a file that anyone may have edited."""
    value = found.get(name)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _word(found: dict[str, Any], table: str, name: str) -> str:
    """A word of a table of such a file; a dash without it."""
    values = found.get(table)
    word = values.get(name) if isinstance(values, dict) else None
    return word if isinstance(word, str) else "-"


def _configurations(rows: Sequence[Row]) -> Html:
    parts = [
        html_page.folded(
            str(folder),
            element("pre", json.dumps(summary.read(folder, run_folder.CONFIG), indent=2)),
        )
        for row in rows
        for folder in row.folders
    ]
    return html_page.section("Whole configurations", *parts)


def write(path: Path, text: str) -> None:
    """Writes a page in one step; only an earlier one is overwritten.

    Raises:
      UsageError: another file is there, or it cannot be written.
    """
    if path.is_dir():
        raise UsageError(f"--out {path} is a folder: name a file, such as {path / 'report.html'}")
    if path.is_file() and not html_page.made_by(MAKER, path):
        raise UsageError(f"--out {path} is not a report: choose another --out")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file name that is not UTF-8 is shown with a question mark.
        with replacing(path) as part:
            part.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(
            f"--out {path} cannot be written ({os.strerror(error.errno or 0)}): choose another file"
        ) from None


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Writes the page and prints its path; returns the exit code (0 or 2)."""
    parser = Parser("python -m re3_jax.commands.report")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIR")
    parser.add_argument(
        "--out", type=Path, default=run_folder.RUNS / "report.html", metavar="FILE.html"
    )
    words = parser.parse_args(argv)
    folders = run_folder.of_runs(words.runs, words.out)
    if not folders:
        example = installing.example("report", "RUNS", "runs/a runs/b")
        raise UsageError(f"give a run or more, as in {example}")
    write(words.out, page(folders))
    print(words.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
