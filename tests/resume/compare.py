"""Reading what runs leave behind, without the code that wrote it."""

import csv
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp


def newest_checkpoint(run: Path) -> Path:
    return max((p for p in (run / "checkpoints").iterdir() if p.name.isdigit()), key=_number)


def leaves(run: Path) -> dict[str, np.ndarray]:
    """Every array of the newest checkpoint by its path, as it is on disk."""
    with ocp.PyTreeCheckpointer() as reader, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sharding info not provided")
        tree = reader.restore(newest_checkpoint(run) / "state")
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(_raw(leaf))
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


def _raw(value: Any) -> Any:
    if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(value)
    return value
