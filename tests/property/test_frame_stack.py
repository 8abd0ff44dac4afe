"""Frame stacks against Gymnasium's own wrapper and against a list of frames."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.replay.frame_stack import FrameStack

SHAPE = (3, 2, 2)


class Counting(gymnasium.Env):
    """Each frame is a unique number; episodes alternate between 3 and 5 steps."""

    observation_space = gymnasium.spaces.Box(0, 255, SHAPE, np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.number = self.episode = 0

    def _frame(self):
        self.number += 1
        return np.full(SHAPE, self.number, np.uint8)

    def reset(self, *, seed=None, options=None):
        self.left, self.episode = (3, 5)[self.episode % 2], self.episode + 1
        return self._frame(), {}

    def step(self, action):
        self.left -= 1
        return self._frame(), 0.0, self.left == 0, False, {}


def channels_last(stacked):
    return np.concatenate(list(stacked), axis=-1)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("padding", "theirs"), [("repeat", "reset"), ("zeros", "zero")])
def test_stacks_are_gymnasiums(padding, theirs, size):
    """Stacks built while acting, lane by lane, and stacks gathered afterwards."""
    env = gymnasium.wrappers.FrameStackObservation(Counting(), size, padding_type=theirs)
    frames = FrameStack(size, padding)
    observation, _ = env.reset()
    newest = observation[-1]
    stack = frames.first(newest[None])
    written, ages, expected, begins = [newest], [0], [channels_last(observation)], False
    for _ in range(20):
        if begins:
            observation, _ = env.reset()
        else:
            observation, _, ended, _, _ = env.step(0)
        newest = observation[-1]
        if not begins:
            np.testing.assert_array_equal(
                frames.push(stack, newest[None])[0], channels_last(observation)
            )
        stack = frames.following(stack, newest[None], jnp.array([begins]))
        np.testing.assert_array_equal(stack[0], channels_last(observation))
        written.append(newest)
        ages.append(0 if begins else ages[-1] + 1)
        expected.append(channels_last(observation))
        begins = not begins and ended
    store, place = np.stack(written), np.arange(len(written))
    gathered = frames.gather(lambda back: store[place - back], jnp.asarray(ages))
    np.testing.assert_array_equal(gathered, np.stack(expected))


def test_a_stack_of_one_is_the_observation():
    frames, flat = FrameStack(1), jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(frames.first(flat), flat)
    np.testing.assert_array_equal(
        frames.following(flat, flat + 1, jnp.array([True, False])), flat + 1
    )
    np.testing.assert_array_equal(frames.gather(lambda back: flat, jnp.array([0, 4])), flat)
