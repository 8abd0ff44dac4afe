"""Host environments small enough to learn in seconds: a dot on a line, seen as an image."""

import numpy as np

from re3_jax.envs.base import Box, Discrete, EnvSpec, LaneStep

SIZE = 16
EPISODE = 10
GREY_SIZE = 36
LINE = 3
LIMIT = 12


def spec(stack: int = 2, size: int = SIZE) -> EnvSpec:
    return EnvSpec(
        "probe:dot",
        (size, size, 3 * stack),
        np.dtype(np.uint8),
        Box((1,), -1.0, 1.0),
        EPISODE,
        2,
        frame_stack=stack,
    )


class DotLanes:
    """The action moves the dot; the reward is 1 at the right end of the line and 0 at the left."""

    can_restore = True

    def __init__(self, num_lanes: int, size: int = SIZE):
        self.spec, self.num_lanes, self.closed = spec(size=size), num_lanes, False
        self.lost = np.zeros(num_lanes, bool)
        self.size = size

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        self.random = np.asarray(seeds, np.uint32)
        self.steps = np.zeros(self.num_lanes, np.int32)
        self._place(np.ones(self.num_lanes, bool))
        return self._frame()

    def send(self, action: np.ndarray) -> None:
        self.action = np.array(action)

    def receive(self) -> LaneStep:
        self.position = np.clip(self.position + 0.25 * self.action[:, 0], 0.0, 1.0)
        self.steps += 1
        reward, final_frame = self.position.astype(np.float32), self._frame()
        truncated = self.steps == EPISODE
        self.steps[truncated] = 0
        self._place(truncated)
        never = np.zeros_like(truncated)
        return LaneStep(self._frame(), reward, never, truncated, final_frame, never)

    def get_state(self) -> dict[str, np.ndarray]:
        names = ("random", "steps", "position")
        return {name: getattr(self, name).copy() for name in names}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        for name, value in state.items():
            setattr(self, name, np.array(value))

    def close(self) -> None:
        self.closed = True

    def _place(self, where: np.ndarray) -> None:
        following = self.random * np.uint32(1664525) + np.uint32(1013904223)
        self.random = np.where(where, following, self.random)
        drawn = (self.random >> np.uint32(8)) / 2**24
        before = getattr(self, "position", drawn)
        # float64, as the state of real physics is.
        self.position = np.where(where, drawn, before)

    def _frame(self) -> np.ndarray:
        frame = np.zeros((self.num_lanes, self.size, self.size, 3), np.uint8)
        column = np.rint(self.position * (self.size - 1)).astype(int)
        for lane in range(self.num_lanes):
            frame[lane, 4:12, max(column[lane] - 1, 0) : column[lane] + 2] = 255
        return frame


def grey_spec(stack: int = 2) -> EnvSpec:
    shape = (GREY_SIZE, GREY_SIZE, stack)
    return EnvSpec(
        "probe:grey", shape, np.dtype(np.uint8), Discrete(2), LIMIT, 4, colours=1, frame_stack=stack
    )


def watched(lanes, order):
    """The lanes, which record in `order` every `send` and `receive`."""
    send, receive = lanes.send, lanes.receive
    lanes.send = lambda action: (order.append("send"), send(action))[1]
    lanes.receive = lambda: (order.append("receive"), receive())[1]
    return lanes


class GreyLanes:
    """A dot on a line, in grey, with lives: action 1 moves it right, action 0 back to the start.

    The right end pays 1 and costs one of two lives; losing the second ends the game, as does a
    time limit.
    """

    can_restore = False

    def __init__(self, num_lanes: int):
        self.spec, self.num_lanes, self.closed = grey_spec(), num_lanes, False
        self.lost = np.zeros(num_lanes, bool)
        self.seen: list[LaneStep] = []

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        self.seeds = np.array(seeds)
        self.position = np.zeros(self.num_lanes, int)
        self.steps, self.lives = np.zeros(self.num_lanes, int), np.full(self.num_lanes, 2)
        return self._frame()

    def send(self, action: np.ndarray) -> None:
        self.action = np.array(action).reshape(self.num_lanes)

    def receive(self) -> LaneStep:
        self.position = np.where(self.action == 1, self.position + 1, 0)
        self.steps += 1
        lost = self.position == LINE
        self.lives -= lost
        terminated = self.lives == 0
        truncated = ~terminated & (self.steps == LIMIT)
        final_frame = self._frame()
        # If the game continues after a lost life, the frame still shows the dot at the right end.
        ended = terminated | truncated
        self.position[ended], self.steps[ended], self.lives[ended] = 0, 0, 2
        frame = self._frame()
        self.position[lost & ~ended] = 0
        step = LaneStep(frame, lost.astype(np.float32), terminated, truncated, final_frame, lost)
        self.seen.append(step)
        return step

    def close(self) -> None:
        self.closed = True

    def _frame(self) -> np.ndarray:
        frame = np.zeros((self.num_lanes, GREY_SIZE, GREY_SIZE, 1), np.uint8)
        frame[np.arange(self.num_lanes), :, 8 * self.position] = 255
        return frame
