"""The contract of host environments: lanes with a NumPy interface (io)."""

from typing import Protocol

import numpy as np

from re3_jax.envs.base import EnvSpec, LaneStep


class HostEnv(Protocol):
    """Several independent episodes of one task, stepped together.

    `spec.observation_shape` is the stack (height, width, colours * frame_stack) that an agent sees,
    newest frame last; lanes return single frames, `spec.frame_shape`, and the device stacks them. A
    `frame_stack` of 1 leaves observations of any shape as they are. If `can_restore` is false,
    `get_state` and `set_state` are not called, and a resumed run begins new episodes. `lost` says
    in which lanes [lane] the step that was received last cut an episode that the task had not
    ended, because its process was lost.
    """

    spec: EnvSpec
    num_lanes: int
    can_restore: bool
    lost: np.ndarray

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """Starts a new episode in every lane, lane i from `seeds[i]`, a whole number.

        Returns the first frames, [lane, *frame_shape] of the spec's dtype.
        """

    def send(self, action: np.ndarray) -> None:
        """Starts one step with `action` [lane, action], whole numbers [lane, 1] where discrete."""

    def receive(self) -> LaneStep:
        """Waits for the step that `send` started."""

    def get_state(self) -> dict[str, np.ndarray]:
        """The complete state of the lanes, as arrays with the leading axis `lane`.

        Shapes and dtypes never change. Must not be called between `send` and `receive`.
        """

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Restores the lanes to the state that `get_state` returned, bit for bit."""

    def close(self) -> None:
        """Ends the processes and threads of the lanes; a second call does nothing."""
