"""Reading what runs leave behind, without the code that wrote it."""

import csv
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp


def newest_checkpoint(run: Path) -> Path:
    return max((p for p in (run / "checkpoints").iterdir() if p.name.isdigit()), key=_number)


def leaves(run: Path) -> dict[str, np.ndarray]:
    """Every array of the newest checkpoint by its path, as it is on disk."""
    path = newest_checkpoint(run) / "state"
    with ocp.PyTreeCheckpointer() as reader:
        # As NumPy arrays: this process may have fewer devices than the run had.
        as_numpy = jax.tree.map(
            lambda _: ocp.RestoreArgs(restore_type=np.ndarray), reader.metadata(path).item_metadata
        )
        tree = reader.restore(path, restore_args=as_numpy)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def rows(table: Path) -> list[dict[str, str]]:
    """Rows of a CSV file without the wall-clock column."""
    with table.open() as lines:
        found = list(csv.DictReader(lines))
    for row in found:
        del row["wall_seconds"]
    return found


def assert_same_run(run: Path, reference: Path) -> None:
    """Equal final state, bit for bit, and equal rows."""
    ours, theirs = leaves(run), leaves(reference)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype, name
        assert ours[name].tobytes() == value.tobytes(), name
    for table in ("train.csv", "eval.csv"):
        assert rows(run / table) == rows(reference / table)


def _number(path: Path) -> int:
    return int(path.name)
