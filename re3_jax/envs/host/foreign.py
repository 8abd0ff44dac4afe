"""Lanes of a suite from outside this package, as the host loop takes them."""

from typing import Any

import jax
import numpy as np
from jaxtyping import DTypeLike

from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.envs.endless import EndlessEpisode

FLAGS = "terminated", "truncated", "task_ended"


def check_lanes_spec(spec: EnvSpec, error: type[ValueError] = ValueError) -> None:
    """Refuses a task that numbers its states, which lanes on the host do not give.

    Raises:
      ValueError: it does so; `error` where that is given.
    """
    if spec.num_states is not None:
        raise error(
            f"{spec.task} has num_states, which is for environments on the device: leave it None "
            "for lanes on the host"
        )


class ForeignLanes:
    """Lanes whose frames, rewards and ends are checked, converted and copied.

    float64 becomes float32, as Gymnasium's environments often have it. The copy matters: an
    environment may write its next frame into the same memory, which JAX may still read.

    Attributes:
      spec: the task's specification.
      num_lanes: episodes stepped together.
      can_restore: whether `get_state` and `set_state` are there; by default not.
      lost: bool [lane], lanes of which a process was lost; by default none.
    """

    def __init__(
        self,
        lanes: Any,
        spec: EnvSpec,
        num_lanes: int,
        error: type[ValueError] = ValueError,
    ):
        """Starts nothing.

        Args:
          lanes: a `HostEnv`, of which all but `reset`, `send`, `receive` and `close` may be
            missing.
          spec: the task's specification.
          num_lanes: how many lanes were asked for.
          error: raised, with one sentence, where a result is of a wrong form.

        Raises:
          ValueError: the task numbers its states, which lanes on the host do not give.
        """
        check_lanes_spec(spec, error)
        self.spec, self.num_lanes, self._lanes, self._error = spec, num_lanes, lanes, error
        self.can_restore = bool(getattr(lanes, "can_restore", False))
        self.lost = np.zeros(num_lanes, bool)
        self._lengths = np.zeros(num_lanes, int)

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """As `HostEnv.reset`.

        Raises:
          ValueError: the frames are of another shape, or of a dtype that is no such number.
        """
        self._lengths[:] = 0
        return self._frames("the first frame", self._lanes.reset(seeds))

    def send(self, action: np.ndarray) -> None:
        """As `HostEnv.send`."""
        self._lanes.send(action)

    def receive(self) -> LaneStep:
        """As `HostEnv.receive`.

        Raises:
          ValueError: it returns no `LaneStep`, or an array in it is of a wrong form.
          EndlessEpisode: an episode is longer than the specification says.
        """
        step = self._lanes.receive()
        if not isinstance(step, LaneStep):
            raise self._error(
                f"receive of {self.spec.task} returns a {type(step).__name__}: return a "
                "re3_jax.envs.base.LaneStep"
            )
        self.lost = np.asarray(getattr(self._lanes, "lost", self.lost))
        reward = self._array("reward", step.reward, (), np.float32)
        flags = {name: self._array(name, getattr(step, name), (), np.bool_) for name in FLAGS}
        frames = {
            name: self._frames(name, getattr(step, name)) for name in ("frame", "final_frame")
        }
        checked = LaneStep(reward=reward, **frames, **flags)
        self._lengths += 1
        if self._lengths.max() > self.spec.max_agent_steps:
            raise EndlessEpisode(self.spec.task, self.spec.max_agent_steps)
        self._lengths[checked.ended] = 0
        return checked

    def get_state(self) -> dict[str, np.ndarray]:
        """As `HostEnv.get_state`."""
        state: dict[str, np.ndarray] = self._lanes.get_state()
        return state

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """As `HostEnv.set_state`; how long its episodes have lasted is not known."""
        self._lengths[:] = 0
        self._lanes.set_state(state)

    def close(self) -> None:
        """As `HostEnv.close`."""
        self._lanes.close()

    def _frames(self, what: str, value: Any) -> np.ndarray:
        return self._array(what, value, self.spec.frame_shape, self.spec.observation_dtype)

    def _array(self, what: str, value: Any, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """The value of every lane, copied to this dtype."""
        wanted, of_lanes = np.dtype(dtype), (self.num_lanes, *shape)
        found = np.array(value)
        if found.shape != of_lanes or not np.can_cast(found.dtype, wanted, "same_kind"):
            raise self._error(
                f"{what} of {self.num_lanes} lanes of {self.spec.task} is "
                f"{found.dtype}{list(found.shape)}, where {wanted}{list(of_lanes)} is needed"
            )
        # Without 64 bits, JAX would wrap int64 around later.
        of_jax = jax.dtypes.canonicalize_dtype(wanted)
        cast = found.astype(of_jax, copy=False)
        if np.issubdtype(wanted, np.integer) and cast is not found and (cast != found).any():
            raise self._error(
                f"{what} of {self.spec.task} holds {found[cast != found].flat[0]}, which {of_jax} "
                "does not: give the specification a dtype that does, or float32, which rounds"
            )
        return cast.astype(wanted, copy=False)
