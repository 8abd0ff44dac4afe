"""New episodes of envpool's lanes while old ones go on; nothing is drawn."""

import threading

import numpy as np
import pytest

from re3_jax.envs.host import envpool
from re3_jax.envs.host.config import DMCConfig

pytest.importorskip("envpool_assets", reason="envpool is not installed")

LANES, LENGTH = 2, 4
"""Lanes, and agent steps of an episode of 1,000 control steps."""


@pytest.fixture
def make(monkeypatch):
    """Makes lanes whose frames are black, so that no driver is needed; rewards are envpool's."""

    def black(self, lanes):
        self.drawn_in = getattr(self, "drawn_in", set()) | {threading.get_ident()}
        return np.zeros((len(lanes), 8, 8, 3), np.uint8)

    monkeypatch.setattr(envpool, "failure", lambda: None)
    monkeypatch.setattr(envpool.EnvPoolLanes, "_draw", black)
    made = []

    def lanes():
        config = DMCConfig(image_size=8, action_repeat=1000 // LENGTH)
        made.append(envpool.EnvPoolLanes("cartpole_swingup", config, LANES))
        return made[-1]

    yield lanes
    for one in made:
        one.close()


ACTIONS = np.random.default_rng(0).uniform(-1, 1, (LENGTH, LANES, 1))


def episode(lanes):
    """Rewards and ends of `LENGTH` steps."""
    steps = []
    for action in ACTIONS:
        lanes.send(action)
        steps.append(lanes.receive())
    return np.array([step.reward for step in steps]), np.array([step.truncated for step in steps])


def test_a_reset_drops_the_step_under_way_and_begins_whole_new_episodes(make):
    lanes, seeds = make(), np.array([5, 6])
    lanes.reset(np.array([1, 2]))
    lanes.send(ACTIONS[0])
    old = lanes.receive().reward
    lanes.send(ACTIONS[1])
    lanes.reset(seeds)
    with pytest.raises(AssertionError, match="without send"):
        lanes.receive()
    reward, truncated = episode(lanes)
    fresh = make()
    fresh.reset(seeds)
    expected, _ = episode(fresh)
    np.testing.assert_array_equal(reward, expected)
    np.testing.assert_array_equal(truncated, [[False] * LANES] * (LENGTH - 1) + [[True] * LANES])
    # Other seeds begin other episodes.
    assert (old != expected[0]).all()
    # A GL context belongs to a thread, in which a reset waits for the step under way.
    assert len(lanes.drawn_in) == 1 and threading.get_ident() not in lanes.drawn_in


def test_a_task_that_ends_terminates_and_a_time_limit_truncates(make):
    """dm_control says which by the discount of the last step."""
    lanes = make()
    lanes.reset(np.array([1, 2]))
    pool = lanes._pool

    class Ending:
        """The pool, whose every step is the last: of the task in lane 0, of the time in lane 1."""

        reset = pool.reset

        @staticmethod
        def step(action, number):
            step = pool.step(action, number)
            last = np.full_like(step.step_type, envpool._LAST)
            discount = np.where(np.asarray(step.observation.env_id) == 0, 0.0, 1.0)
            return step._replace(step_type=last, discount=discount)

    lanes._pool = Ending
    lanes.send(ACTIONS[0])
    step = lanes.receive()
    np.testing.assert_array_equal(step.terminated, [True, False])
    np.testing.assert_array_equal(step.truncated, [False, True])
    np.testing.assert_array_equal(step.task_ended, step.terminated)
