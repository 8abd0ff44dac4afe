"""A host environment small enough to learn in seconds: a dot on a line, seen as an image."""

import numpy as np

from re3_jax.envs.base import Box, EnvSpec
from re3_jax.envs.host.base import HostStep

SIZE = 16
EPISODE = 10


def spec(stack: int = 2) -> EnvSpec:
    return EnvSpec(
        "probe:dot", (SIZE, SIZE, 3 * stack), np.dtype(np.uint8), Box((1,), -1.0, 1.0), EPISODE, 2
    )


class DotLanes:
    """The action moves the dot; the reward is 1 at the right end of the line and 0 at the left."""

    can_restore = True

    def __init__(self, num_lanes: int):
        self.spec, self.num_lanes, self.closed = spec(), num_lanes, False

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        self.random = np.asarray(seeds, np.uint32)
        self.steps = np.zeros(self.num_lanes, np.int32)
        self._place(np.ones(self.num_lanes, bool))
        return self._frame()

    def send(self, action: np.ndarray) -> None:
        self.action = np.array(action)

    def receive(self) -> HostStep:
        self.position = np.clip(self.position + 0.25 * self.action[:, 0], 0.0, 1.0)
        self.steps += 1
        reward, final_frame = self.position.astype(np.float32), self._frame()
        truncated = self.steps == EPISODE
        self.steps[truncated] = 0
        self._place(truncated)
        return HostStep(self._frame(), reward, np.zeros_like(truncated), truncated, final_frame)

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
        frame = np.zeros((self.num_lanes, SIZE, SIZE, 3), np.uint8)
        column = np.rint(self.position * (SIZE - 1)).astype(int)
        for lane in range(self.num_lanes):
            frame[lane, 4:12, max(column[lane] - 1, 0) : column[lane] + 2] = 255
        return frame
