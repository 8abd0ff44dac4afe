"""Reads the files of runs without the code that wrote them."""

import csv
import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog


def newest_checkpoint(run: Path) -> Path:
    return max((p for p in (run / "checkpoints").iterdir() if p.name.isdigit()), key=_number)


def leaves(run: Path, checkpoint: int | None = None) -> dict[str, np.ndarray]:
    """Path -> array of a checkpoint, by default the newest, as it is on disk."""
    found = newest_checkpoint(run) if checkpoint is None else run / f"checkpoints/{checkpoint}"
    path = found / "state"
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


def frames(run: Path) -> dict[tuple[int, int], dict[int, bytes]]:
    """(replay, ring) -> number of a frame -> its bytes, as the newest checkpoint lists them."""
    listed = json.loads((newest_checkpoint(run) / "host" / "metadata").read_text())["frames"]
    found: dict[tuple[int, int], dict[int, bytes]] = {}
    for replay, segments in enumerate(listed):
        for file, _, firsts, ends, ring in segments:
            content = gzip.decompress((run / "checkpoints" / "frames" / file).read_bytes())
            longest = max(end - first for first, end in zip(firsts, ends, strict=True)) + 1
            changes = np.frombuffer(content, np.uint8).reshape(longest, len(ends), -1)
            rows = np.cumsum(changes, axis=0, dtype=np.uint8)
            for place, (first, end) in enumerate(zip(firsts, ends, strict=True)):
                held = found.setdefault((replay, ring + place), {})
                # The row after the newest frame is written again with what it then holds.
                held.update((n, rows[n - first, place].tobytes()) for n in range(first, end + 1))
    return found


def rows(table: Path) -> list[dict[str, str]]:
    """Rows of a CSV file without the wall-clock column."""
    with table.open() as lines:
        found = list(csv.DictReader(lines))
    for row in found:
        del row["wall_seconds"]
    return found


def assert_same_run(run: Path, reference: Path) -> None:
    """Equal final state, bit for bit, with the frames of replays, and equal rows."""
    # It reads the frames with this module's functions.
    from tests.torture.differences import differing_frames

    ours, theirs = leaves(run), leaves(reference)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype, name
        assert ours[name].tobytes() == value.tobytes(), name
    of_frames = differing_frames(run, reference)
    assert not of_frames, of_frames
    for table in ("train.csv", "eval.csv", "states.csv"):
        assert rows(run / table) == rows(reference / table)


def assert_rows_close(run: Path, reference: Path, rel: float) -> None:
    """Equal rows, up to what a difference in the last bit of an update grows to."""
    for table in ("train.csv", "eval.csv"):
        ours, theirs = rows(run / table), rows(reference / table)
        assert len(ours) == len(theirs) and ours[0].keys() == theirs[0].keys()
        for our, their in zip(ours, theirs, strict=True):
            for name, value in their.items():
                if our[name] != value:
                    assert our[name] and value, (table, their["env_frames"], name)
                    expected = pytest.approx(float(value), rel=rel, abs=1e-6)
                    assert float(our[name]) == expected, (table, their["env_frames"], name)


def assert_close_run(run: Path, reference: Path, rel: float) -> None:
    """Equal whole numbers in the final state, and close floats there and in rows."""
    ours, theirs = leaves(run), leaves(reference)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype, name
        tolerance = rel if np.issubdtype(value.dtype, np.floating) else 0.0
        np.testing.assert_allclose(ours[name], value, rtol=tolerance, atol=tolerance, err_msg=name)
    assert_rows_close(run, reference, rel)


class Scalars(NamedTuple):
    """Tag -> step -> value: what TensorBoard shows of a run, and what it hides."""

    shown: dict[str, dict[int, float]]
    hidden: dict[str, dict[int, float]]


def scalars(run: Path) -> Scalars:
    """TensorBoard's rule: a process that starts at a step hides older values from that step on."""
    found = Scalars({}, {})
    for path in sorted((run / "tensorboard").iterdir()):
        for event in _events(path):
            if event.session_log.status == SessionLog.START:
                for tag, values in found.shown.items():
                    for step in [step for step in values if step >= event.step]:
                        found.hidden.setdefault(tag, {})[step] = values.pop(step)
            for value in event.summary.value:
                found.shown.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def _events(path: Path) -> Iterator[Event]:
    """Records of length, checksum, bytes, checksum; an incomplete record ends the file."""
    data, start = path.read_bytes(), 0
    while start + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, start)
        if start + 16 + length > len(data):
            return
        yield Event.FromString(data[start + 12 : start + 12 + length])
        start += 16 + length


def _number(path: Path) -> int:
    return int(path.name)
