"""A small torture survives, and a ledger that was stopped goes on without trying anything twice."""

import json
from dataclasses import replace

import numpy as np
import pytest

from re3_jax.training.checkpoint import CheckpointStore
from tests.resume.compare import assert_same_run
from tests.resume.test_replay_journal import advance, empty
from tests.torture import __main__ as command
from tests.torture.__main__ import torture
from tests.torture.differences import differing, differing_bytes
from tests.torture.ledger import Ledger, Outcome
from tests.torture.rehearsal import Rehearsal


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    """Runs of A2C, compiled once for all kinds of trials."""
    rehearsal = Rehearsal("a2c", tmp_path_factory.mktemp("rehearsal"))
    yield rehearsal
    rehearsal.close()


# As in test_checkpoint, where a file is damaged.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("killed_at_every_write", ["killed at every write"]),
        ("flipped_bytes", ["flipped byte"]),
        # Each of these trials is one or two whole runs.
        pytest.param("refused_writes", ["full disk", "read-only folder"], marks=pytest.mark.slow),
        pytest.param("jumping_clocks", ["jumping clock"], marks=pytest.mark.slow),
    ],
)
def test_a_few_trials_of_each_kind(name, kinds, rehearsal, tmp_path):
    ledger = Ledger(tmp_path / "trials.jsonl")
    command.QUICK["a2c"][name](ledger, "a2c", rehearsal, tmp_path / name)
    counts = ledger.counts()
    assert [row["kind"] for row in counts] == kinds
    for row in counts:
        assert row["survived"] == row["tried"] > 0, row
        assert row["differing_bytes"] == row["lost_rows"] == 0, row


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_the_quick_torture_has_trials_of_each_kind(tmp_path):
    counts = torture(tmp_path, quick=True).counts()
    assert len(counts) == 5 and all(row["survived"] == row["tried"] > 0 for row in counts)


def test_the_command_kills_those_asked_for_in_a_folder_that_orbax_can_read(monkeypatch, tmp_path):
    """Orbax refuses relative paths, and the default folder is one."""
    called = []

    def killed(ledger, agent, folder, count):
        called.append((agent, folder, count))

    monkeypatch.setattr(command, "random_kills", killed)
    monkeypatch.chdir(tmp_path)
    words = "torture --only random_kills --agents dreamer ppo --kills 3 --out found.json"
    monkeypatch.setattr("sys.argv", words.split())
    assert command.main() == 0
    folder = tmp_path / "runs" / "torture"
    assert called == [(agent, folder / agent / "kills", 3) for agent in ("dreamer", "ppo")]
    assert json.loads((tmp_path / "found.json").read_text())["command"].endswith(words[8:])


def test_a_ledger_goes_on_and_counts_what_was_lost(tmp_path):
    tried = []

    def trial(outcome):
        tried.append(outcome)
        return outcome

    for _ in range(2):
        ledger = Ledger(tmp_path / "trials.jsonl")
        ledger.try_once("kind", "a2c", "1", trial, Outcome("exact"))
        ledger.try_once("kind", "a2c", "2", trial, Outcome("differs", 3, 2))
    assert len(tried) == 2
    (row,) = ledger.counts()
    assert (row["tried"], row["survived"]) == (2, 1)
    assert (row["differing_bytes"], row["lost_rows"]) == (3, 2)


def saved(run, *states):
    store = CheckpointStore(run / "checkpoints")
    for number, state in enumerate(states):
        store.save(number, state, {})
    store.close()
    return run


def test_bytes_of_frames_are_counted_however_they_were_written(tmp_path):
    earlier = advance(empty(), 25)
    state = advance(earlier, 45)
    replay, counter = state["nested"]
    row = int(replay.num_written[1, 0] - 7) % replay.rows
    array = replay.frames.array.at[1, 0, row].add(1)
    other = replay._replace(frames=replace(replay.frames, array=array))
    at_once, in_two = saved(tmp_path / "1", state), saved(tmp_path / "2", earlier, state)
    changed = saved(tmp_path / "3", {**state, "nested": (other, counter)})
    assert differing_bytes(in_two, at_once) == differing_bytes(at_once, in_two) == 0
    assert differing_bytes(changed, in_two) == array[1, 0, row].size
    assert differing(changed, in_two) == {
        "frames of (0, 1)": (array[1, 0, row].size, int(replay.num_written[1, 0] - 7))
    }
    for table in ("train.csv", "eval.csv", "states.csv"):
        for run in (at_once, in_two, changed):
            (run / table).touch()
    assert_same_run(in_two, at_once)
    with pytest.raises(AssertionError, match=r"frames of \(0, 1\)"):
        assert_same_run(changed, in_two)


def test_the_first_row_that_differs_is_named(tmp_path):
    latents = np.arange(24.0).reshape(2, 4, 3)
    changed = latents.copy()
    changed[1, 2, 0] += 1
    changed[0, 3] += 1
    one = saved(tmp_path / "1", {"latents": latents, "count": np.array([4, 4], np.int32)})
    two = saved(tmp_path / "2", {"latents": changed, "count": np.array([4, 5], np.int32)})
    found = differing(two, one)
    assert {name: difference.first_row for name, difference in found.items()} == {
        "latents": 2,
        "count": 0,
    }
    apart = np.frombuffer(changed.tobytes(), np.uint8) != np.frombuffer(latents.tobytes(), np.uint8)
    assert found["latents"].bytes == apart.sum() and found["count"].bytes == 1
