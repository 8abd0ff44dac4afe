"""What a run tells: train.csv, eval.csv and states.csv, and a part of it to loggers (io).

A run without a folder has the same tables in memory.

The CSV files are the record and are exact: a float32 is written with the nine digits that
give it back, and a resumed run cuts the files to the length that its checkpoint knows.
"""

import os
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from jaxtyping import Array, Float

from re3_jax.training.evaluate import EvalStats

TABLES = ("train.csv", "eval.csv", "states.csv")


class OtherColumnsError(ValueError):
    """The file of a table has other columns than those that it is given."""


class CsvTable:
    """A CSV file that is only appended to, and cut to a known length when opened again."""

    def __init__(self, name: str, file: BinaryIO, keep_bytes: int):
        """Cuts a file to its first `keep_bytes` bytes; it is open for reading and appending."""
        self._name, self._file = name, file
        file.truncate(keep_bytes)
        file.seek(0)
        header = file.readline().decode().strip()
        self._columns = header.split(",") if header else None
        file.seek(0, os.SEEK_END)

    def append(self, columns: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        """Writes a row for each value of the columns; the first call ever names them.

        Raises:
          OtherColumnsError: the file has other columns.
        """
        if self._columns is None:
            self._columns = list(columns)
            self._file.write(f"{','.join(columns)}\n".encode())
        if list(columns) != self._columns:
            raise OtherColumnsError(
                f"{self._name} has the columns {', '.join(self._columns)}, but this run gives "
                f"{', '.join(columns)}: other code began it, so go on with that, or start a new "
                "run in another folder"
            )
        for row in zip(*columns.values(), strict=True):
            self._file.write(f"{','.join(map(_text, row))}\n".encode())
        self._file.flush()

    def sync(self) -> int:
        """Forces the rows to disk and returns the length of the file in bytes."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def contents(self) -> bytes:
        """The whole table."""
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Tables:
    """Rows of a run, one per seed; metrics become columns under the names they come with."""

    def __init__(
        self, files: Mapping[str, BinaryIO], seeds: Sequence[int], keep_bytes: Mapping[str, int]
    ):
        """Cuts each of `TABLES` to the length in `keep_bytes`, or empties it.

        Args:
          files: name of a table -> a file that is open for reading and appending.
          seeds: seed numbers, in the order of the leading axis of all that is recorded.
          keep_bytes: name of a table -> bytes to keep.
        """
        self._seeds = tuple(seeds)
        self._tables = {
            name: CsvTable(name, file, keep_bytes.get(name, 0)) for name, file in files.items()
        }

    @classmethod
    def in_memory(cls, seeds: Sequence[int], contents: Mapping[str, bytes]) -> "Tables":
        """Tables without files, which go on from these contents."""
        files = {name: BytesIO(contents.get(name, b"")) for name in TABLES}
        return cls(files, seeds, {name: len(text) for name, text in contents.items()})

    def train(
        self,
        env_frames: int,
        wall_seconds: float,
        metrics: Mapping[str, Float[Array | np.ndarray, " seed"]],
    ) -> None:
        """Records one chunk of training."""
        self._append("train.csv", env_frames, wall_seconds, dict(sorted(metrics.items())))

    def evaluation(self, env_frames: int, wall_seconds: float, stats: EvalStats) -> None:
        """Records one evaluation; every field of `stats` has one value per seed."""
        self._append("eval.csv", env_frames, wall_seconds, stats._asdict())

    def states(self, env_frames: int, wall_seconds: float, sha256: Sequence[str]) -> None:
        """Records the digest of each seed's state, by which two runs are compared."""
        self._append("states.csv", env_frames, wall_seconds, {"state_sha256": sha256})

    def contents(self) -> dict[str, bytes]:
        """The text of each table."""
        return {name: table.contents() for name, table in self._tables.items()}

    def _append(
        self, table: str, env_frames: int, wall_seconds: float, columns: Mapping[str, Any]
    ) -> None:
        now = {"env_frames": env_frames, "wall_seconds": f"{wall_seconds:.3f}"}
        repeated = {name: [value] * len(self._seeds) for name, value in now.items()}
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        self._tables[table].append({"seed": self._seeds, **repeated, **arrays})


class Logger(Protocol):
    """Shows scalars over env frames elsewhere.

    Attributes:
      where: a folder or an address, in words for the user.
    """

    where: str

    def scalars(self, env_frames: int, values: Mapping[str, float]) -> None:
        """Shows values, by name, at one place of the x-axis."""

    def sync(self) -> None:
        """Makes what was shown survive this process."""

    def close(self) -> None:
        """Ends the record, until a resumed run goes on with it."""


class Recorder(Tables):
    """The tables as files of a run folder, and a part of their numbers to loggers.

    Attributes:
      loggers: are given means over seeds of what `train` records, and of an evaluation the mean
        return and each seed's.
    """

    def __init__(
        self,
        folder: Path,
        seeds: Sequence[int],
        *,
        keep_bytes: Mapping[str, int],
    ):
        """Opens the files in `folder`.

        Args:
          folder: the run folder.
          seeds: seed numbers, in the order of the leading axis of all that is recorded.
          keep_bytes: what `sync` returned at the checkpoint the run goes on from; empty for
            a new run.

        Raises:
          ValueError: a file is shorter than `keep_bytes`, so rows that were recorded are gone;
            no file was cut.
        """
        _check_lengths(folder, keep_bytes)
        files = {name: (folder / name).open("a+b") for name in TABLES}
        super().__init__(files, seeds, keep_bytes)
        self.loggers: Sequence[Logger] = ()

    def train(
        self,
        env_frames: int,
        wall_seconds: float,
        metrics: Mapping[str, Float[Array | np.ndarray, " seed"]],
    ) -> None:
        """Records one chunk of training."""
        super().train(env_frames, wall_seconds, metrics)
        means = {
            f"train/{name}": float(np.nanmean(values))
            for name, values in metrics.items()
            if np.isfinite(values).any()
        }
        for logger in self.loggers:
            logger.scalars(env_frames, means)

    def evaluation(self, env_frames: int, wall_seconds: float, stats: EvalStats) -> None:
        """Records one evaluation; every field of `stats` has one value per seed."""
        super().evaluation(env_frames, wall_seconds, stats)
        returns = {"evaluation/return_mean": float(stats.return_mean.mean())}
        for seed, value in zip(self._seeds, stats.return_mean, strict=True):
            returns[f"evaluation/return/seed_{seed}"] = float(value)
        for logger in self.loggers:
            logger.scalars(env_frames, returns)

    def sync(self) -> dict[str, int]:
        """Forces everything to disk; the length of each CSV file in bytes."""
        for logger in self.loggers:
            logger.sync()
        return {name: table.sync() for name, table in self._tables.items()}

    def close(self) -> None:
        """Closes all files."""
        for table in self._tables.values():
            table.close()
        for logger in self.loggers:
            logger.close()


def read_tables(folder: Path, keep_bytes: Mapping[str, int]) -> dict[str, bytes]:
    """Name -> text of the tables in a run folder, as far as a checkpoint knows them.

    Raises:
      ValueError: a file is shorter than `keep_bytes`.
    """
    _check_lengths(folder, keep_bytes)
    return {name: (folder / name).read_bytes()[:known] for name, known in keep_bytes.items()}


def _check_lengths(folder: Path, keep_bytes: Mapping[str, int]) -> None:
    for name, known in keep_bytes.items():
        path = folder / name
        size = path.stat().st_size if path.exists() else 0
        if size < known:
            raise ValueError(
                f"{path} is shorter than its checkpoint recorded ({size} of {known} bytes): "
                "restore it from a copy or start a new run in another folder"
            )


def _text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float | np.floating) else str(value)
