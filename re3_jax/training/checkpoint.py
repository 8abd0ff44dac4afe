"""Checkpoints that are whole or are passed over (io).

Orbax writes each checkpoint into a temporary folder and renames it, so a process killed at
any moment leaves the old ones and perhaps one complete new one. What was damaged later
(truncated, flipped bits) is found by SHA-256 digests of every leaf and of the host's record.
The frames of replays go to a journal beside the checkpoints (`replay_journal`), which writes
each frame once; a checkpoint is whole if all the segments that it lists are.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from re3_jax.training import digests, layouts
from re3_jax.training.distributed import ALONE, LostProcess, Processes
from re3_jax.training.replay_journal import ReplayJournal, Segments, without_frames
from re3_jax.training.transfer import name_of

KEEP = 3
"""Checkpoints kept: the newest, and two to fall back on."""


class CheckpointStore:
    """The checkpoints of one run, numbered by a growing step.

    A checkpoint holds a pytree of arrays (typed PRNG keys included) and a JSON record of
    what the host must remember. Replays of frames in it have a leading axis of seeds, and of
    two states saved or restored one after the other the second goes on from the first.
    """

    def __init__(self, folder: Path, processes: Processes = ALONE):
        """Opens `folder`, made where there is none; only `save` changes what is in it.

        All `processes` share it: each saves and restores its own seeds, and calls every method that
        the others call.
        """
        _silence_late_reports()
        self.folder, self._processes = folder.absolute(), processes
        self._damaged: list[int] = []
        self._journal = ReplayJournal(self.folder / "frames", processes)
        # A process that trains may delete a checkpoint whose metadata this one would read here.
        few = ocp.CheckpointManagerOptions(
            max_to_keep=KEEP, enable_async_checkpointing=False, lightweight_initialize=True
        )
        self._manager = ocp.CheckpointManager(self.folder, options=few)

    def steps(self) -> list[int]:
        """Steps of the checkpoints on disk, oldest first."""
        return sorted(self._manager.all_steps())

    def save(self, step: int, state: Any, record: dict[str, Any]) -> None:
        """Writes a checkpoint and returns when it is complete; an existing step is kept.

        Checkpoints that `restore` found damaged are moved to `broken-STEP`, so that their step
        can be written again, and what a killed process left half written is removed.

        Raises:
          OSError: the disk does not take it (full, over a quota); the older ones are untouched.
          LostProcess: another process of the run does not answer.
        """
        self._tidy()
        if step in self._manager.all_steps():
            return
        try:
            small, own = without_frames(state), self._journal.write(str(step), state)
            parts = zip(*self._processes.exchange(own), strict=True)
            listed: list[Segments] = [sum(segments, []) for segments in parts]
            leaves = digests.of_leaves(self._all_rows(small))
            content = {"record": record, "frames": listed, "digests": leaves}
            host = ocp.args.JsonSave({**content, "digest": _digest(content)})
            whole = ocp.args.StandardSave(self._processes.whole(small))
            args = ocp.args.Composite(state=whole, host=host)
            self._manager.save(step, args=args)
            self._manager.wait_until_finished()
        except (OSError, ValueError) as error:
            # tensorstore's form of an error that the operating system gave.
            code = re.search(r"os_error_code='(\d+)'", str(error))
            number = int(code[1]) if code else getattr(error, "errno", None)
            if number is None:
                raise
            _silence_unstarted()
            raise OSError(number, os.strerror(number), str(self.folder)) from error
        if listed:
            self._journal.keep(own, [listed, *(self._listed(kept) for kept in self.steps())])

    def restore(
        self, template: Any, report: Callable[[str], None]
    ) -> tuple[Any, dict[str, Any]] | None:
        """The newest whole checkpoint as `(state, record)`.

        Args:
          template: a state of the same structure, shapes and dtypes; shardings are taken from
            it.
          report: is told of each damaged checkpoint that is passed over.

        Returns:
          None if there is no checkpoint at all.

        Raises:
          ValueError: there are checkpoints, and all are damaged.
          LostProcess: another process of the run does not answer.
        """
        damaged: dict[int, str] = {}
        for step in reversed(self._processes.exchange(self.steps())[0]):
            try:
                found = self._read(step, template)
            except LostProcess:
                raise
            # Damaged bytes surface as almost any exception, deep inside orbax.
            except Exception as error:
                _silence_unstarted()
                damaged[step] = _first_line(error)
                continue
            for broken, why in damaged.items():
                report(f"checkpoint {broken} is damaged and is passed over ({why})")
            self._damaged.extend(damaged)
            return found
        if not damaged:
            return None
        step, why = next(iter(damaged.items()))
        raise ValueError(
            f"every checkpoint in {self.folder} is damaged ({step}: {why}): restore the folder "
            "from a copy or start a new run in another one"
        )

    def read_parts(
        self, names: Sequence[str]
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Leaves of the newest checkpoint by their path, and its record.

        Nothing need be known of the state, and its other parts are not read.

        Args:
          names: fields of the state; the frames of a replay in them are left out.

        Returns:
          None if there is no checkpoint at all.

        Raises:
          ValueError: the newest checkpoint is damaged.
        """
        if not self.steps():
            return None
        step = self.steps()[-1]
        try:
            sealed, path = self._sealed(step), self.folder / str(step) / "state"
            with self._reader(ocp.PyTreeCheckpointHandler) as reader:
                stored = _metadata(reader, path)
                wanted = {name: stored[name] for name in names}
                as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), wanted)
                args = ocp.args.PyTreeRestore(wanted, restore_args=as_numpy, partial_restore=True)
                found = reader.restore(path, args=args)
            expected = sealed["digests"].items()
            if digests.of_leaves(digests.of_rows(found)) != {
                path: one for path, one in expected if path.split("/")[0] in names
            }:
                raise ValueError("its digest does not match")
        # As in `restore`.
        except Exception as error:
            _silence_unstarted()
            raise ValueError(f"its checkpoint {step} is damaged ({_first_line(error)})") from None
        leaves = jax.tree_util.tree_leaves_with_path(found)
        return {name_of(path): leaf for path, leaf in leaves}, sealed["record"]

    def close(self) -> None:
        """Releases orbax's threads."""
        self._manager.close()

    def _read(self, step: int, template: Any) -> tuple[Any, dict[str, Any]]:
        small, sealed = self._processes.agreed(self._read_small, step, without_frames(template))
        if digests.of_leaves(self._all_rows(small)) != sealed["digests"]:
            raise ValueError("its digest does not match")
        whole = self._processes.agreed(self._journal.read, sealed["frames"], small, template)
        return whole, sealed["record"]

    def _read_small(self, step: int, template: Any) -> tuple[Any, dict[str, Any]]:
        sealed, whole = self._sealed(step), self._processes.whole(template)
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, whole)
        with self._reader(ocp.StandardCheckpointHandler) as reader:
            path, args = self.folder / str(step) / "state", ocp.args.StandardRestore(abstract)
            # Orbax would convert an array, and its digest would seem to show damage.
            if _dtypes(abstract).items() - _dtypes(_metadata(reader, path)).items():
                raise ValueError("another version of re3_jax wrote it")
            found = reader.restore(path, args=args)
        # Where its metadata is gone, orbax gives back keys as plain integers.
        if _form(found) != _form(whole):
            raise ValueError("it does not have the form of this run's state")
        return jax.tree.map(layouts.put, self._processes.part(found, template), template), sealed

    def _reader(self, handler: Any) -> ocp.Checkpointer:
        """Reads without waiting for other processes, which may find other damage."""
        own = self._processes.index
        alone = ocp.options.MultiprocessingOptions(primary_host=own, active_processes={own})
        return ocp.Checkpointer(
            handler(multiprocessing_options=alone), multiprocessing_options=alone
        )

    def _all_rows(self, small: Any) -> dict[str, digests.LeafDigests]:
        """Digests of the rows of all processes."""
        first, *others = self._processes.exchange(digests.of_rows(small))
        return {
            name: digests.LeafDigests(form, sum((other[name].rows for other in others), rows))
            for name, (form, rows) in first.items()
        }

    def _sealed(self, step: int) -> dict[str, Any]:
        """What a checkpoint says of itself beside the state."""
        sealed = json.loads((self.folder / str(step) / "host" / "metadata").read_text())
        if "digests" not in sealed:
            raise ValueError("another version of re3_jax wrote it")
        if sealed.pop("digest") != _digest(sealed):
            raise ValueError("its digest does not match")
        return sealed

    def _listed(self, step: int) -> list[Segments]:
        """Segments that a checkpoint on disk needs; a damaged one will not be read."""
        try:
            return self._sealed(step)["frames"]
        # As in `restore`.
        except Exception:
            return []

    def _tidy(self) -> None:
        if self._processes.is_first:
            for half_written in self.folder.glob("*.orbax-checkpoint-tmp*"):
                shutil.rmtree(half_written)
            for step in self._damaged:
                aside = self.folder / f"broken-{step}"
                shutil.rmtree(aside, ignore_errors=True)
                (self.folder / str(step)).rename(aside)
        self._processes.exchange(None)
        if self._damaged:
            self._damaged = []
            self._manager.reload()


def _silence_unstarted() -> None:
    """Orbax drops what it has not begun when one array fails; Python would report that later."""
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)


def _metadata(reader: ocp.Checkpointer, path: Path) -> Any:
    """What a checkpoint holds, without the warning that this part of one has no file of its own."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return reader.metadata(path).item_metadata
    finally:
        logger.setLevel(level)


LATE_READ = "Encountered error while reading array index"
LATE_CALL = "Event loop is closed"
"""What orbax, and tensorstore's own threads, report of other arrays once one has failed."""


def _silence_late_reports() -> None:
    """The failure itself is one sentence, which these would surround at any time after it."""
    if getattr(sys.unraisablehook, "func", None) is not _report:
        sys.unraisablehook = partial(_report, sys.unraisablehook)


def _report(otherwise: Callable[[Any], Any], unraisable: Any) -> None:
    said = str(unraisable.exc_value)
    # An event loop of the program's own that is closed too early comes with an object.
    is_late = said.startswith(LATE_READ) or (said == LATE_CALL and unraisable.object is None)
    if not is_late:
        otherwise(unraisable)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _form(state: Any) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)


def _dtypes(state: Any) -> dict[str, np.dtype]:
    """By the path of every leaf but PRNG keys, which orbax stores as integers."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        name_of(path): np.dtype(leaf.dtype)
        for path, leaf in leaves
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    }


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:80] if text else type(error).__name__
