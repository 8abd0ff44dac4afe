"""When a life counts as lost, against Kaixhin's rule, with counts of lives that are made up."""

from types import SimpleNamespace

import numpy as np
import pytest

from re3_jax.envs.host import atari
from re3_jax.envs.host.config import AtariConfig

BEGIN = 3
"""Lives at the first frame of a game."""

GAMES = (
    # A life lost and won back; no lives for two frames, one more, then none and the end.
    [(2, 0), (2, 0), (3, 0), (2, 0), (1, 0), (0, 0), (0, 0), (1, 0), (0, 0), (0, 1), (3, 0)],
    # The end comes with the last life, or with lives left; then the count begins anew.
    [(2, 0), (1, 0), (0, 1), (3, 0), (2, 1), (3, 0), (2, 0), (1, 0), (1, 0), (0, 0), (0, 1)],
)
"""(lives, whether the game ended) after each step, per lane."""


class Pool:
    """Envpool's interface over `GAMES`; results come in reverse order, as threads may have it."""

    def __init__(self):
        self.step_number = 0

    def _answer(self, lanes, lives):
        order = np.argsort(lanes)[::-1]
        frames = np.zeros((len(lanes), 1, atari.SIZE, atari.SIZE), np.uint8)
        return frames, order, {"env_id": lanes[order], "lives": np.array(lives)[order]}

    def reset(self, lanes):
        frames, _, info = self._answer(lanes, [BEGIN] * len(lanes))
        return frames, info

    def step(self, action, lanes):
        del action
        lives, ended = np.array([game[self.step_number] for game in GAMES]).T
        self.step_number += 1
        frames, order, info = self._answer(lanes, lives)
        ended = ended[order].astype(bool)
        return frames, np.zeros(len(lanes)), ended, np.zeros_like(ended), info


def kaixhin(game):
    """Whether each step ends the task: `lives < self.lives and lives > 0`, or the game's end."""
    before, ends = BEGIN, []
    for lives, ended in game:
        ends.append(bool(ended) or (lives < before and lives > 0))
        before = BEGIN if ended else lives
    return ends


@pytest.fixture
def play(monkeypatch):
    """Plays `GAMES`; the steps' ends of task and game, [time, lane]."""
    envpool = SimpleNamespace(make_gymnasium=lambda *_, **__: Pool())
    monkeypatch.setattr(atari.envpool, "load", lambda: envpool)
    monkeypatch.setattr(atari, "spec", lambda *_: None)

    def run(**config):
        lanes = atari.AtariLanes("qbert", AtariConfig(**config), len(GAMES))
        lanes.reset(np.arange(len(GAMES)))
        steps = []
        for _ in GAMES[0]:
            lanes.send(np.zeros(len(GAMES)))
            steps.append(lanes.receive())
        lanes.close()
        return np.array([(s.task_ended, s.terminated) for s in steps]).transpose(1, 2, 0)

    return run


def test_a_life_is_lost_while_some_are_left(play):
    task_ended, terminated = play()
    np.testing.assert_array_equal(terminated, [[ended for _, ended in game] for game in GAMES])
    np.testing.assert_array_equal(task_ended, [kaixhin(game) for game in GAMES])
    # The last life and the game end once, two steps apart.
    np.testing.assert_array_equal(np.flatnonzero(task_ended[0]), [0, 3, 4, 9])


def test_only_the_game_ends_the_task_if_lives_do_not(play):
    task_ended, terminated = play(life_ends=False)
    np.testing.assert_array_equal(task_ended, terminated)
