"""When a run saves between its first and its last checkpoint."""

import dataclasses
from types import SimpleNamespace

import pytest

from re3_jax.runs import observers
from re3_jax.runs.host_record import HostRecord
from re3_jax.runs.resolve import resolve
from re3_jax.training.distributed import ALONE

pytestmark = pytest.mark.resume


def test_a_checkpoint_follows_the_last_one_or_compiling_after_the_seconds_asked_for(monkeypatch):
    clock, saved = SimpleNamespace(now=100.0), []
    monkeypatch.setattr(observers, "time", SimpleNamespace(monotonic=lambda: clock.now))
    config = dataclasses.replace(resolve("doorkey_6x6", preset="debug"), checkpoint_seconds=5.0)
    session = SimpleNamespace(
        config=config, record=HostRecord(), processes=ALONE, capture=lambda: None
    )
    store = SimpleNamespace(save=lambda *_: saved.append(clock.now))
    checkpoints = observers.Checkpoints(store, None)
    clock.now = 103.0
    checkpoints.compiled(session, 3.0)
    for clock.now in (105.0, 107.9, 108.0, 112.9, 113.5, 118.4, 118.5):
        checkpoints.trained(session, {})
    assert saved == [108.0, 113.5, 118.5]
