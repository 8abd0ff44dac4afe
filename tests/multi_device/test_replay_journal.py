"""Replays spread over devices by seed are saved and restored on their devices."""

import subprocess
import sys

import pytest

from tests import virtual_devices
from tests.resume.conftest import ROOT

SCRIPT = """
import pathlib, sys
import jax
from re3_jax.training import replay_journal
from re3_jax.training.checkpoint import CheckpointStore
from tests.resume.test_checkpoint import assert_equal
from tests.resume.test_replay_journal import advance, empty

mesh = jax.make_mesh((2,), ("seed",), axis_types=(jax.sharding.AxisType[sys.argv[2]],))
sharding = jax.NamedSharding(mesh, jax.P("seed"))
store, state = CheckpointStore(pathlib.Path(sys.argv[1])), empty()
for step in range(4):
    state = advance(state, 30)
    store.save(step, jax.device_put(state, sharding), {})
template = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), empty()
)
found, _ = store.restore(template, print)
assert_equal(found, state)
for leaf in jax.tree.leaves(found):
    assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
frames = found["nested"][0].frames.array
rows, block = jax.device_put(
    (jax.numpy.zeros((2, 7), int), jax.numpy.zeros((2, 7, *frames.shape[2:]), "uint8")), sharding
)
for program in (
    replay_journal._take.lower(frames, rows, 1), replay_journal._put.lower(frames, rows, block, 1)
):
    text = program.compile().as_text()
    assert not any(word in text for word in ("all-gather", "all-reduce", "collective-permute"))
print("equal")
"""


def run(folder, axis_type: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), axis_type],
        env=virtual_devices.environment(2),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "equal"


@pytest.mark.parametrize("axis_type", ["Auto", pytest.param("Explicit", marks=pytest.mark.slow)])
def test_seeds_on_two_devices(tmp_path, axis_type):
    """No frame moves between devices, for either axis type of the mesh."""
    run(tmp_path, axis_type)
