"""One run's configuration, compiled once and run many times in this process."""

import contextlib
import io
import shutil
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np

from re3_jax.commands import train
from re3_jax.runs import session, summary
from re3_jax.runs.config import RunConfig
from re3_jax.training.checkpoint import CheckpointStore
from tests.kept_runners import Kept, KeptRunners
from tests.resume.compare import rows

COMMON = ("--preset", "debug")
CASES = {
    "a2c": (
        *("--env", "minigrid:DoorKey-5x5", "--seeds", "2", "--steps", "384"),
        *("--chunk-updates", "4", "--evaluation.every-env-frames", "256"),
        *("--evaluation.episodes", "4"),
    ),
    "ppo": (
        *("--env", "gymnax:Pendulum-v1", "--agent", "ppo", "--seeds", "2", "--steps", "1024"),
        *("--chunk-updates", "1", "--evaluation.every-env-frames", "256"),
    ),
    "rad": (
        *("--env", "pendulum_swingup", "--agent", "rad", "--dmc.renderer", "warp"),
        *("--dmc.image-size", "24", "--sac.augmentation", "shift", "--seeds", "1"),
        *("--steps", "2000", "--chunk-updates", "20", "--evaluation.every-env-frames", "1000"),
        *("--evaluation.episodes", "1"),
    ),
    "drq": (
        *("--env", "pendulum_swingup", "--agent", "drq", "--dmc.renderer", "warp"),
        *("--dmc.image-size", "24", "--sac.augmentation", "shift", "--seeds", "1"),
        *("--steps", "2000", "--chunk-updates", "20", "--evaluation.every-env-frames", "1000"),
        *("--evaluation.episodes", "1"),
    ),
    "rainbow": ("--env", "doorkey_6x6", "--agent", "rainbow"),
    "dreamer": ("--env", "pixels:bar", "--agent", "dreamer"),
}
"""Agent -> options of a run of seconds; one on the host, one with frames on the device."""


class Ended(NamedTuple):
    """How a run ended: its exit code, None after an exception, and what it printed."""

    code: int | None
    out: str
    err: str

    def refused(self) -> bool:
        """One sentence and exit code 2."""
        return self.code == 2 and self.err.startswith("error: ") and self.err.count("\n") == 1


class Rehearsal:
    """Runs of one agent; all equal `reference`, which is never interrupted."""

    def __init__(self, agent: str, folder: Path):
        """Runs the reference below `folder`."""
        self.words = *CASES[agent], *COMMON, "--checkpoint-seconds", "0"
        self._runners = KeptRunners()
        self._runner: Kept | None = None
        self.reference = folder / "reference"
        shutil.rmtree(self.reference, ignore_errors=True)
        ended = self.run(self.reference)
        if ended.code != 0:
            raise RuntimeError(ended.err)
        self._state = self._restored(self.reference)

    def run(self, out: Path, *words: str) -> Ended:
        """`experiments.train` in `out`."""
        said, err = io.StringIO(), io.StringIO()
        with (
            # The end of a process closes its files.
            warnings.catch_warnings(action="ignore", category=ResourceWarning),
            mock.patch.object(session, "build", self._build),
            # A second per run, and nothing reads it.
            mock.patch.object(summary, "draw_curve"),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(err),
        ):
            # What a run before this one left undone; the end of a process forgets it.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            try:
                code = train.main([*self.words, "--out", str(out), *words])
            except Exception:
                return Ended(None, said.getvalue(), traceback.format_exc())
        if code in (130, 143):
            # The signal was meant for the torture.
            raise KeyboardInterrupt
        return Ended(code, said.getvalue(), err.getvalue())

    def differing(self, out: Path) -> tuple[int, int]:
        """Bytes of the final state, and rows of the tables, that differ from the reference's."""
        theirs = jax.tree.leaves(self._state)
        pairs = zip(jax.tree.leaves(self._restored(out)), theirs, strict=True)
        num_bytes = sum(
            int(np.count_nonzero(np.frombuffer(a, np.uint8) != np.frombuffer(b, np.uint8)))
            for a, b in pairs
        )
        return num_bytes, differing_rows(out, self.reference)

    def close(self) -> None:
        """Ends the environments."""
        self._runners.close()

    def _build(self, config: RunConfig, *rest: Any) -> Kept:
        self._runner = self._runners.build(config, *rest)
        return self._runner

    def _restored(self, out: Path) -> Any:
        """The final state as bytes, with the frames of its replay."""
        assert self._runner is not None
        store = CheckpointStore(out / "checkpoints")
        found = store.restore(self._runner.template(0), print)
        store.close()
        assert found is not None
        state = jax.tree.map(as_numbers, found[0])
        return jax.tree.map(lambda leaf: np.asarray(leaf).tobytes(), state)


def differing_rows(out: Path, reference: Path) -> int:
    """Rows of the reference's tables that a run lacks, and rows that it has beyond them."""
    found = 0
    for name in ("train.csv", "eval.csv", "states.csv"):
        ours, theirs = (Counter(tuple(r.items()) for r in rows(f / name)) for f in (out, reference))
        found += ((ours - theirs) + (theirs - ours)).total()
    return found


def as_numbers(leaf: Any) -> Any:
    """The leaf itself, or the numbers of typed PRNG keys."""
    is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf
