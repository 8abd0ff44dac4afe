"""A checkpoint of one device restored on two, four and eight (virtual) ones.

    python -m tests.torture.devices FOLDER

prints a JSON list: number of devices, bytes of the restored state that differ, and the largest
difference of a float after one chunk more, relative to the largest value of its array.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.runs import build
from re3_jax.runs.options import parse
from re3_jax.training.checkpoint import CheckpointStore
from tests import virtual_devices
from tests.torture.ledger import Ledger, Outcome
from tests.torture.rehearsal import as_numbers

COUNTS = (1, 2, 4, 8)
OPTIONS = (
    *("--env", "minigrid:DoorKey-5x5", "--preset", "debug", "--seeds", "8"),
    *("--chunk-updates", "4", "--out", "unused"),
)


def other_devices(ledger: Ledger, agent: str, folder: Path) -> None:
    """Restores on every number of devices, in a process that has eight."""
    if ledger.count("other devices", agent) == len(COUNTS):
        return
    command = [sys.executable, "-m", "tests.torture.devices", str(folder)]
    done = subprocess.run(
        command, env=virtual_devices.environment(8), capture_output=True, text=True, check=True
    )
    for count, num_bytes, difference in json.loads(done.stdout.splitlines()[-1]):
        result = "differs" if num_bytes else "exact"
        said = f"one chunk later floats differ by {difference:.1e}"
        ledger.try_once("other devices", agent, f"{count}", Outcome, result, num_bytes, 0, said)


def _main(folder: Path) -> list[tuple[int, int, float]]:
    config, spec = build.prepared(parse(list(OPTIONS)))
    saved, found, after = None, [], []
    for count in COUNTS:
        used = jax.devices()[:count]
        with mock.patch.object(build, "devices_for", lambda *_, used=used: used):
            runner = build.build(config, spec, print)
        template = runner.template(config.seeds)
        store = CheckpointStore(folder)
        if saved is None:
            state = runner.init(jnp.asarray(config.seed_numbers, jnp.int32))
            state, _ = runner.train(state)
            store.save(1, state, {})
            saved = _numpy(state)
        state, _ = store.restore(template, print)
        store.close()
        num_bytes = sum(
            int(np.count_nonzero(_bytes(ours) != _bytes(theirs)))
            for ours, theirs in zip(_numpy(state), saved, strict=True)
        )
        after.append(_numpy(runner.train(state)[0]))
        found.append((count, num_bytes, max(map(_difference, after[-1], after[0]))))
    return found


def _numpy(state: Any) -> list[np.ndarray]:
    return [np.array(as_numbers(leaf), order="C") for leaf in jax.tree.leaves(state)]


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.dtype.kind != "f" or ours.size == 0:
        return 0.0
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))


if __name__ == "__main__":
    print(json.dumps(_main(Path(sys.argv[1]))))
