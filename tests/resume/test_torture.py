"""A small torture survives, and a ledger that was stopped goes on without trying anything twice."""

import pytest

from tests.torture.__main__ import torture
from tests.torture.ledger import Ledger, Outcome


# As in test_checkpoint: what orbax leaves behind when a file is damaged.
@pytest.mark.filterwarnings("ignore:coroutine.*was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_few_trials_of_each_kind(tmp_path):
    counts = torture(tmp_path, quick=True).counts()
    assert [row["kind"] for row in counts] == [
        *("killed at every write", "flipped byte", "full disk", "read-only folder"),
        "jumping clock",
    ]
    for row in counts:
        assert row["survived"] == row["tried"] > 0, row
        assert row["differing_bytes"] == row["lost_rows"] == 0, row


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
