"""Checkpoints that are whole or are passed over (io).

Orbax writes each checkpoint into a temporary folder and renames it, so a process killed at
any moment leaves the old ones and perhaps one complete new one. What was damaged later
(truncated, flipped bits) is found by a SHA-256 digest over every leaf and the host's record.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

KEEP = 3
"""Checkpoints kept: the newest, and two to fall back on."""


class CheckpointStore:
    """The checkpoints of one run, numbered by a growing step.

    A checkpoint holds a pytree of arrays (typed PRNG keys included) and a JSON record of
    what the host must remember.
    """

    def __init__(self, folder: Path):
        """Opens `folder`, made by the first save, and clears what a killed save left."""
        self.folder = folder.absolute()
        self._manager = ocp.CheckpointManager(
            self.folder,
            options=ocp.CheckpointManagerOptions(
                max_to_keep=KEEP,
                enable_async_checkpointing=False,
                cleanup_tmp_directories=True,
            ),
        )

    def steps(self) -> list[int]:
        """Steps of the checkpoints on disk, oldest first."""
        return sorted(self._manager.all_steps())

    def save(self, step: int, state: Any, record: dict[str, Any]) -> None:
        """Writes a checkpoint and returns when it is complete; an existing step is kept."""
        if step in self._manager.all_steps():
            return
        sealed = {"record": record, "digest": digest(state, record)}
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), host=ocp.args.JsonSave(sealed)
            ),
        )
        self._manager.wait_until_finished()

    def restore(
        self, template: Any, report: Callable[[str], None]
    ) -> tuple[Any, dict[str, Any]] | None:
        """The newest whole checkpoint as `(state, record)`.

        Args:
          template: a pytree of the state's structure, of arrays or `jax.ShapeDtypeStruct`;
            shardings are taken from it.
          report: is told of each damaged checkpoint that is passed over. Those are moved to
            `broken-STEP`, so that the run can write their step again.

        Returns:
          None if there is no checkpoint at all.

        Raises:
          ValueError: there are checkpoints, and all are damaged; nothing is moved.
        """
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, template)
        damaged = []
        for step in reversed(self.steps()):
            try:
                found = self._read(step, abstract)
            # Damaged bytes surface as almost any exception, deep inside orbax.
            except Exception as error:
                damaged.append((step, _first_line(error)))
                continue
            for broken, why in damaged:
                self._set_aside(broken)
                report(f"checkpoint {broken} is damaged ({why}) and is passed over")
            return found
        if damaged:
            raise ValueError(
                f"every checkpoint in {self.folder} is damaged "
                f"({', '.join(str(step) for step, _ in damaged)}): restore the folder from a "
                "copy or start anew in another one"
            )
        return None

    def close(self) -> None:
        """Releases orbax's threads."""
        self._manager.close()

    def _read(self, step: int, abstract: Any) -> tuple[Any, dict[str, Any]]:
        found = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(abstract), host=ocp.args.JsonRestore()
            ),
        )
        state, sealed = found["state"], found["host"]
        if digest(state, sealed["record"]) != sealed["digest"]:
            raise ValueError("its digest does not match")
        return state, sealed["record"]

    def _set_aside(self, step: int) -> None:
        aside = self.folder / f"broken-{step}"
        shutil.rmtree(aside, ignore_errors=True)
        (self.folder / str(step)).rename(aside)
        self._manager.reload()


def digest(state: Any, record: dict[str, Any]) -> str:
    """SHA-256 over the paths, dtypes, shapes and bytes of all leaves and over `record`."""
    sha = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        array = np.ascontiguousarray(jax.device_get(leaf))
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(array.data)
    return sha.hexdigest()


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:160] if text else type(error).__name__
