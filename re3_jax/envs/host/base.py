"""The contract of environments that live on the host: lanes behind NumPy (io)."""

from typing import Protocol

import numpy as np

from re3_jax.envs.base import EnvSpec, LaneStep


class HostEnv(Protocol):
    """Several independent episodes of one task, stepped together.

    `spec.observation_shape` is the stack (height, width, colours * frame_stack) that an agent sees,
    newest frame last; lanes return single frames, which are stacked on the device. Where
    `can_restore` is false, `get_state` and `set_state` raise.
    """

    spec: EnvSpec
    num_lanes: int
    can_restore: bool

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """Starts a new episode in every lane, lane i drawn from `seeds[i]`; its first frames."""

    def send(self, action: np.ndarray) -> None:
        """Starts one step with `action` [lane, action]; returns at once."""

    def receive(self) -> LaneStep:
        """Waits for the step that `send` started."""

    def get_state(self) -> dict[str, np.ndarray]:
        """All that the lanes' futures depend on, as arrays with the leading axis `lane`.

        Shapes and dtypes never change. Must not be called between `send` and `receive`.
        """

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Puts the lanes back to where `get_state` was called, bit for bit."""

    def close(self) -> None:
        """Ends what the lanes run in; called twice it does nothing."""
