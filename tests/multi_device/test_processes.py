"""Processes that share a checkpoint: what they exchange, and seeds that move between them."""

import jax
import numpy as np
import pytest

from re3_jax.training import digests, distributed
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.distributed import Processes
from tests.multi_device.launch import finished, launch
from tests.resume.test_checkpoint import assert_equal
from tests.resume.test_replay_journal import SEEDS, advance, empty

TOGETHER = """
import sys
from pathlib import Path
import jax, numpy as np
from re3_jax.training import distributed
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.seeds import OverSeeds
from tests.resume.test_replay_journal import advance, empty

processes = distributed.start()
assert (jax.process_index(), jax.process_count()) == (processes.index, 2)
assert processes.exchange("ab" * processes.index) == ["", "ab"]
joined = processes.join({"x": np.full((2, 3), float(processes.index))})
assert joined["x"].dtype == np.float64 and joined["x"][:, 0].tolist() == [0, 0, 1, 1]
assert processes.from_first(lambda: processes.index + 7) == 7

def fail():
    raise OSError("no room")

try:
    processes.from_first(fail)
except distributed.FailedElsewhere:
    assert processes.index == 1
except OSError:
    assert processes.index == 0

def fail_in_second():
    assert processes.index == 0, "broken here"

try:
    processes.agreed(fail_in_second)
    raise SystemExit("nothing was raised")
except ValueError as error:
    assert str(error) == "broken here"

# Each has one of two seeds.
sharding = OverSeeds().sharding
def own(state):
    mine = slice(processes.index, processes.index + 1)
    return jax.tree.map(lambda leaf: jax.device_put(leaf[mine], sharding), state)

folder = Path(sys.argv[1])
store = CheckpointStore(folder / "apart", processes)
store.save(1, own(advance(empty(), 30)), {"step": 1})
store.save(2, own(advance(advance(empty(), 30), 25)), {"step": 2})
store.close()
for name in ("together", "apart"):
    store = CheckpointStore(folder / name, processes)
    state, record = store.restore(own(empty()), print)
    assert record == {"step": 2}
    expected = own(advance(advance(empty(), 30), 25))
    for ours, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        if jax.dtypes.issubdtype(ours.dtype, jax.dtypes.prng_key):
            ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    store.save(3, state, {"step": 3})
    store.close()
print("done")
"""


def test_two_processes_share_checkpoints(tmp_path):
    """What one process wrote two restore, each its seed, and the other way round."""
    states = [advance(empty(), 30)]
    states.append(advance(states[0], 25))
    store = CheckpointStore(tmp_path / "together")
    for step, state in enumerate(states, start=1):
        store.save(step, state, {"step": step})
    store.close()
    said = finished(launch(2, ["-c", TOGETHER, str(tmp_path)]))
    assert all(out.endswith("done\n") for out in said)
    for name in ("together", "apart"):
        store, passed_over = CheckpointStore(tmp_path / name), []
        found, record = store.restore(empty(), passed_over.append)
        assert (record, passed_over) == ({"step": 3}, [])
        assert_equal(found, states[1])
        # A run that goes on alone writes segments that go on from those of two processes.
        later = advance(found, 5)
        store.save(4, later, {"step": 4})
        store.close()
        store = CheckpointStore(tmp_path / name)
        assert_equal(store.restore(empty(), print)[0], later)
        store.close()


def test_digests_of_parts_are_those_of_the_whole():
    whole = advance(empty(), 3)["keys"], np.arange(SEEDS * 3).reshape(SEEDS, 3)
    parts = [jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], whole) for i in range(SEEDS)]
    assert sum(map(digests.of_seeds, parts), []) == digests.of_seeds(whole)


def test_seeds_that_do_not_divide_are_refused():
    assert Processes(1, 3).share(6) == 2
    with pytest.raises(ValueError, match="--seeds 5 cannot be spread evenly over 2 processes"):
        Processes(0, 2).share(5)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (None, Processes())),
        ({"SLURM_NTASKS": "4", "SLURM_JOB_ID": "1"}, (None, Processes())),
        (
            {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"},
            ((None, 4, 2, None), Processes(2, 4)),
        ),
        (
            {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "5"},
            (("a:6", 2, 1, None), Processes(1, 2)),
        ),
        (
            {"WORLD_SIZE": "8", "RANK": "5", "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "1"}
            | {"MASTER_ADDR": "a", "MASTER_PORT": "5"},
            (("a:6", 8, 5, [1]), Processes(5, 8)),
        ),
    ],
)
def test_launchers(monkeypatch, variables, expected):
    """A shell inside an allocation of SLURM starts one process; only srun starts several."""
    called = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *words: called.append(words))
    found = distributed.start(variables)
    assert ((called or [None])[0], found) == expected


def test_processes_that_cannot_be_connected_end_in_a_sentence(monkeypatch):
    """As with a port that another program has."""

    def refuse(*words):
        raise RuntimeError("UNKNOWN: Failed to start RPC server")

    monkeypatch.setattr(jax.distributed, "initialize", refuse)
    with pytest.raises(ValueError, match=r"2 processes that OMPI.* RPC server\).* a free port"):
        distributed.start({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"})


@pytest.mark.parametrize(
    ("variables", "what"),
    [
        ({"WORLD_SIZE": ""}, "WORLD_SIZE is '', not a number"),
        ({"WORLD_SIZE": "2"}, "RANK is missing"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "MASTER_ADDR is missing beside WORLD_SIZE"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "a"}, "MASTER_PORT is missing"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK is missing"),
    ],
)
def test_incomplete_launchers_are_refused(variables, what):
    with pytest.raises(ValueError, match=rf"incomplete \({what}\).* unset .*WORLD_SIZE"):
        distributed.start(variables)
