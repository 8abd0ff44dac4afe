"""The tables of a run as arrays."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from re3_jax.runs.errors import UsageError
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.recorder import Tables

ERRORS = (ValueError, KeyError, OverflowError, csv.Error)
"""What a damaged table raises."""

PER_ROW = ("env_frames", "wall_seconds")
"""Columns with one value for all seeds."""

ALWAYS = {"eval.csv": EvalStats._fields, "states.csv": ("state_sha256",)}
"""Table -> the columns that it has beside those, if it has a line."""


def whole_rows(table: bytes, seeds: int) -> bytes:
    """A table without what its run is just writing: the rows that all seeds have."""
    header, *lines = table[: table.rfind(b"\n") + 1].splitlines(keepends=True) or [b""]
    return header + b"".join(lines[: len(lines) // seeds * seeds])


def arrays(table: bytes, seeds: int) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Column -> its values: of `PER_ROW` each [row], of any other [seed, row].

    Args:
      table: text of a CSV file of `Tables`.
      seeds: their number; each row of the result has one line for each.

    Returns:
      float64, but env frames int64 and digests text; `PER_ROW` first, and alone for a table
      without a line.

    Raises:
      one of `ERRORS`: the table is damaged.
    """
    header, *lines = list(_cells(table)) or [["seed", *PER_ROW]]
    if any(len(line) != len(header) for line in lines):
        raise ValueError("a line has more or fewer cells than the header")
    cells = np.array(lines, dtype=object).reshape(-1, seeds, len(header))
    columns = {name: cells[..., i].T for i, name in enumerate(header) if name != "seed"}
    found: dict[str, np.ndarray] = {}
    for name, values in columns.items():
        kind = np.int64 if name == "env_frames" else str if "sha256" in name else np.float64
        found[name] = values.astype(kind)[0 if name in PER_ROW else slice(None)]
    return {name: found[name] for name in (*PER_ROW, *found)}


def _cells(table: bytes) -> Iterator[list[str]]:
    # A byte that became a quotation mark must not make one cell of all lines after it.
    return csv.reader(table.decode().splitlines(), quoting=csv.QUOTE_NONE)


def read(path: Path, seeds: int) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The whole rows of a table's file as `arrays`, those of `PER_ROW` first; no rows without one.

    Raises:
      UsageError: it has a damaged line.
    """
    try:
        text = path.read_bytes()
    except OSError:
        text = b""
    try:
        return arrays(whole_rows(text, seeds), seeds)
    except ERRORS:
        raise UsageError(_damaged(path)) from None


def of_text(contents: Mapping[str, bytes], name: str, seeds: int) -> dict[str, np.ndarray]:
    """A table of a run by its name as `arrays`; a UsageError if a line or the header is damaged."""
    text = contents.get(name, b"")
    try:
        found = arrays(text, seeds)
        return {
            column: found[column] for column in (*found, *(ALWAYS.get(name, ()) if text else ()))
        }
    except ERRORS:
        raise UsageError(_damaged(name)) from None


def _damaged(table: Path | str) -> str:
    return f"{table} has a damaged line: restore it from a copy, or leave its run out"


def replay(contents: Mapping[str, bytes], seeds: int, tables: Tables) -> None:
    """Records all rows again; `tables` then have the same text."""
    calls = {
        "train.csv": tables.train,
        "eval.csv": lambda frames, seconds, row: tables.evaluation(
            frames, seconds, EvalStats(**row)
        ),
        "states.csv": lambda frames, seconds, row: tables.states(
            frames, seconds, row["state_sha256"]
        ),
    }
    for name, record in calls.items():
        columns = of_text(contents, name, seeds)
        rows = {name: columns.pop(name) for name in PER_ROW}
        for i, (frames, seconds) in enumerate(zip(*rows.values(), strict=True)):
            record(frames, seconds, {column: values[:, i] for column, values in columns.items()})


def check(contents: Mapping[str, bytes], seeds: Sequence[int]) -> None:
    """Records all rows nowhere: a UsageError for a damaged table before a folder is begun."""
    replay(contents, len(seeds), Tables.in_memory(seeds, {}))
