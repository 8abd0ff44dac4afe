"""What a run tells: train.csv, eval.csv, states.csv and TensorBoard events (io).

The CSV files are the record and are exact: a float32 is written with the nine digits that
give it back, and a resumed run cuts the files to the length that its checkpoint knows.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from re3_jax.training.evaluate import EvalStats


class CsvTable:
    """A CSV file that is only appended to, and cut to a known length when opened again."""

    def __init__(self, path: Path, keep_bytes: int):
        """Opens `path` and cuts it to its first `keep_bytes` bytes, which it must have."""
        self._file = path.open("ab")
        self._file.truncate(keep_bytes)
        self._columns: list[str] | None = None
        if keep_bytes:
            with path.open() as lines:
                self._columns = lines.readline().strip().split(",")

    def append(self, columns: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        """Writes a row for each value of the columns; the first call ever names them."""
        if self._columns is None:
            self._columns = list(columns)
            self._file.write(f"{','.join(columns)}\n".encode())
        if list(columns) != self._columns:
            raise ValueError(f"{self._file.name} has columns {self._columns}, not {list(columns)}")
        for row in zip(*columns.values(), strict=True):
            self._file.write(f"{','.join(map(_text, row))}\n".encode())
        self._file.flush()

    def sync(self) -> int:
        """Forces the rows to disk and returns the length of the file in bytes."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Recorder:
    """Rows of a run, one per seed; metrics become columns under the names they come with."""

    def __init__(
        self,
        folder: Path,
        seeds: Sequence[int],
        *,
        tensorboard: bool,
        keep_bytes: Mapping[str, int],
        env_frames: int,
    ):
        """Opens the files in `folder`.

        Args:
          folder: the run folder.
          seeds: seed numbers, in the order of the leading axis of all that is recorded.
          tensorboard: whether to write TensorBoard events too.
          keep_bytes: what `sync` returned at the checkpoint the run goes on from; empty for
            a new run.
          env_frames: where the run goes on; TensorBoard hides what lies after it.

        Raises:
          ValueError: a file is shorter than `keep_bytes`, so rows that were recorded are gone;
            no file was cut.
        """
        for name, known in keep_bytes.items():
            path = folder / name
            size = path.stat().st_size if path.exists() else 0
            if size < known:
                raise ValueError(
                    f"{path} is shorter than its checkpoint recorded ({size} of {known} bytes): "
                    "restore it from a copy or start a new run in another folder"
                )
        self._seeds = tuple(seeds)
        self._tables = {
            name: CsvTable(folder / name, keep_bytes.get(name, 0))
            for name in ("train.csv", "eval.csv", "states.csv")
        }
        self._events: Any = None
        if tensorboard:
            # Imported where it is used: it takes seconds, and most users need no events.
            from tensorboardX import SummaryWriter

            self._events = SummaryWriter(str(folder / "tensorboard"), purge_step=env_frames + 1)

    def train(
        self,
        env_frames: int,
        wall_seconds: float,
        metrics: Mapping[str, Float[Array | np.ndarray, " seed"]],
    ) -> None:
        """Records one chunk of training."""
        self._append("train.csv", env_frames, wall_seconds, dict(sorted(metrics.items())))
        if self._events is not None:
            for name, values in metrics.items():
                if np.isfinite(values).any():
                    self._events.add_scalar(f"train/{name}", np.nanmean(values), env_frames)

    def evaluation(self, env_frames: int, wall_seconds: float, stats: EvalStats) -> None:
        """Records one evaluation; every field of `stats` has one value per seed."""
        self._append("eval.csv", env_frames, wall_seconds, stats._asdict())
        if self._events is not None:
            self._events.add_scalar("evaluation/return_mean", stats.return_mean.mean(), env_frames)
            for seed, value in zip(self._seeds, stats.return_mean, strict=True):
                self._events.add_scalar(f"evaluation/return/seed_{seed}", value, env_frames)

    def states(self, env_frames: int, wall_seconds: float, sha256: Sequence[str]) -> None:
        """Records the digest of each seed's state, by which two runs are compared."""
        self._append("states.csv", env_frames, wall_seconds, {"state_sha256": sha256})

    def sync(self) -> dict[str, int]:
        """Forces everything to disk; the length of each CSV file in bytes."""
        if self._events is not None:
            self._events.flush()
        return {name: table.sync() for name, table in self._tables.items()}

    def close(self) -> None:
        """Closes all files."""
        for table in self._tables.values():
            table.close()
        if self._events is not None:
            self._events.close()

    def _append(
        self, table: str, env_frames: int, wall_seconds: float, columns: Mapping[str, Any]
    ) -> None:
        now = {"env_frames": env_frames, "wall_seconds": f"{wall_seconds:.3f}"}
        repeated = {name: [value] * len(self._seeds) for name, value in now.items()}
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        self._tables[table].append({"seed": self._seeds, **repeated, **arrays})


def _text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float | np.floating) else str(value)
