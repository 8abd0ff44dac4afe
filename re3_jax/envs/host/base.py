"""The contract of host environments: lanes with a NumPy interface (io)."""

from typing import NamedTuple, Protocol

import numpy as np

from re3_jax.envs.base import EnvSpec


class HostStep(NamedTuple):
    """The result of one step of all lanes; every array has the leading axis `lane`.

    Auto-reset is same-step: where an episode ended, `frame` is already the first of the next
    one and `final_frame` the last of the one that ended; elsewhere both are the same frame.

    Attributes:
      frame: newest frame, uint8 [lane, height, width, colours].
      reward: float32, summed over the action repeat.
      terminated: the task ended and nothing follows.
      truncated: a time limit (or a lost worker) cut the episode.
      final_frame: uint8 [lane, height, width, colours].
      task_ended: whether the learner treats the task as ended: `terminated`, or a lost life in a
        game that continues.
    """

    frame: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_frame: np.ndarray
    task_ended: np.ndarray


class HostEnv(Protocol):
    """Several independent episodes of one task, stepped together.

    `spec.observation_shape` is the stack (height, width, colours * frame_stack) that an agent sees,
    newest frame last; lanes return single frames, and the device stacks them. If `can_restore` is
    false, `get_state` and `set_state` raise.
    """

    spec: EnvSpec
    num_lanes: int
    can_restore: bool

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """Starts a new episode in every lane, lane i from `seeds[i]`; returns the first frames."""

    def send(self, action: np.ndarray) -> None:
        """Starts one step with `action` [lane, action]; returns at once."""

    def receive(self) -> HostStep:
        """Waits for the step that `send` started."""

    def get_state(self) -> dict[str, np.ndarray]:
        """The complete state of the lanes, as arrays with the leading axis `lane`.

        Shapes and dtypes never change. Must not be called between `send` and `receive`.
        """

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Restores the lanes to the state that `get_state` returned, bit for bit."""

    def close(self) -> None:
        """Ends the processes and threads of the lanes; a second call does nothing."""
