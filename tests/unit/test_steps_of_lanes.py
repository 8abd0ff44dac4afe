"""What lanes do from reset to reset; the workers stay, because each takes seconds to start."""

import itertools
import signal
import time

import numpy as np
import pytest

from re3_jax.envs.host import make
from re3_jax.envs.host.config import DMCConfig
from tests.dm_control_suite import actions
from tests.unit.test_lanes import TASK, step, workers


class Started:
    """Lanes, and what was said of them."""

    def __init__(self, num_lanes, num_workers):
        self.said = []
        config = DMCConfig(image_size=16, workers=num_workers)
        before = workers()
        self.env = make(TASK, config, num_lanes, self.said.append)
        self.workers = [worker for worker in workers() if worker not in before]
        assert len(self.workers) == num_workers


@pytest.fixture(scope="module")
def alone():
    """One lane."""
    started = Started(1, 1)
    yield started
    started.env.close()


@pytest.fixture(scope="module")
def pair():
    """Two lanes of one worker."""
    started = Started(2, 1)
    yield started
    started.env.close()


def test_a_clock_that_jumps_loses_no_worker(pair, monkeypatch):
    """As after a suspended machine, or a run that was stopped with Ctrl-Z for an hour."""
    pair.env.reset(np.array([1, 2]))
    monotonic, hours = time.monotonic, itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 3600 * next(hours))
    for number in range(3):
        assert not step(pair.env, number).truncated.any()
    assert pair.said == []


def test_lanes_may_share_workers(pair):
    separate = Started(2, 2)
    try:
        for env in (separate.env, pair.env):
            env.reset(np.arange(2))
        for number in range(3):
            one, other = step(separate.env, number), step(pair.env, number)
            for name, value in one._asdict().items():
                np.testing.assert_array_equal(value, getattr(other, name))
    finally:
        separate.env.close()


def test_workers_leave_ctrl_c_and_sigterm_to_the_parent(pair):
    pair.env.reset(np.array([1, 2]))
    for worker in pair.workers:
        worker.send_signal(signal.SIGINT)
        worker.send_signal(signal.SIGTERM)
    assert not step(pair.env).truncated.any()
    assert not pair.said


def test_reset_drops_a_step_that_was_not_received(alone):
    first = alone.env.reset(np.array([1]))
    alone.env.send(actions(TASK, 1))
    np.testing.assert_array_equal(alone.env.reset(np.array([1])), first)
    assert (step(alone.env).frame != first).any()


def test_receive_without_send_is_refused(alone):
    alone.env.reset(np.array([1]))
    with pytest.raises(RuntimeError, match="without a send"):
        alone.env.receive()


def test_a_state_of_another_number_of_lanes_is_refused(alone, pair):
    pair.env.reset(np.array([1, 2]))
    with pytest.raises(ValueError, match="the state is of 2 lanes, but there are 1"):
        alone.env.set_state(pair.env.get_state())
