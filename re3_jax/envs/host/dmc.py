"""Episodes of a DeepMind Control task, without rendering (io).

Worker processes import this module and must not import JAX, so it imports `EnvSpec` late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from re3_jax.envs.host import tasks
from re3_jax.envs.host.config import DMCConfig

if TYPE_CHECKING:
    from jaxtyping import Float

    from re3_jax.envs.base import EnvSpec

_DRAWN_ONLY = ("mesh_", "tex_", "skin_", "flex", "bvh_", "oct_", "names", "text_")
"""Prefixes of model arrays that are large and that no task ever changes."""

_HEIGHT_FIELD = 1
"""mjGEOM_HFIELD."""

_TERRAIN = 0
"""The number of the only height field of a model."""


def spec(task_id: str, config: DMCConfig) -> EnvSpec:
    """Specification of a task; starts nothing and imports no physics engine.

    Args:
      task_id: dm_control's domain and task joined by `_`, or a sparse task of the paper.
      config: frame size, stack and action repeat.

    Raises:
      ValueError: if there is no such task.
    """
    from re3_jax.envs.base import Box, EnvSpec

    task = tasks.find(task_id)
    size = config.image_size
    return EnvSpec(
        task=f"dmc:{task_id}",
        observation_shape=(size, size, 3 * config.frame_stack),
        observation_dtype=np.dtype(np.uint8),
        action_space=Box((task.action_dim,), -1.0, 1.0),
        max_agent_steps=-(-tasks.EPISODE_CONTROL_STEPS // config.action_repeat),
        action_repeat=config.action_repeat,
        frame_stack=config.frame_stack,
    )


def bounds(
    minimum: Float[np.ndarray, " action"], maximum: Float[np.ndarray, " action"]
) -> tuple[Float[np.ndarray, " action"], Float[np.ndarray, " action"]]:
    """Where -1 and 1 of an action go, float64, for a task with these limits.

    lqr's actuators have none (1e10 in dm_control): [-1, 1] is not rescaled there.
    """
    low = np.where(minimum > -1e9, minimum, -1.0).astype(np.float64)
    return low, np.where(maximum < 1e9, maximum, 1.0).astype(np.float64)


class Outcome(NamedTuple):
    """The result of one agent step, without its frame.

    Attributes:
      reward: summed over the action repeat.
      terminated: the task ended (dm_control's discount is 0).
      truncated: the time limit, or a simulation that diverged, cut the episode.
      diverged: dm_control found the state of the simulation invalid.
    """

    reward: float
    terminated: bool
    truncated: bool
    diverged: bool


class Lane:
    """A task's physics and episodes.

    After `advance` ended an episode, `begin_next` must be called before the next `advance`.
    """

    def __init__(self, task_id: str, config: DMCConfig):
        """Loads the task; `begin` starts its first episode.

        Raises:
          ValueError: if there is no such task.
        """
        from dm_control import suite

        self.task = tasks.find(task_id)
        self._repeat = config.action_repeat
        self._threshold = config.sparse_threshold
        # This class counts the time limit itself: it is 1000 control steps for every task, and the
        # count is saved with the state. The seed matters only to lqr, which draws its model.
        self._env = suite.load(
            self.task.domain,
            self.task.task,
            task_kwargs={"random": 0, "time_limit": float("inf")},
        )
        limits = self._env.action_spec()
        self._low, self._high = bounds(limits.minimum, limits.maximum)
        self._control_steps = 0
        self._env.reset()

    @property
    def physics(self) -> Any:
        """dm_control's physics, for renderers."""
        return self._env.physics

    def begin(self, seed: int) -> None:
        """Starts the same episode as dm_control with `random=seed`; lqr's model is that of 0."""
        self._env.task.random.seed(seed)
        self.begin_next()

    def begin_next(self) -> None:
        """Starts the next episode of the task's own random sequence."""
        self._control_steps = 0
        self._env.reset()

    def advance(self, action: np.ndarray) -> Outcome:
        """One agent step: `action_repeat` control steps, or as many as the episode has left.

        Args:
          action: float [action], each within [-1, 1].
        """
        from dm_control.rl.control import PhysicsError

        # dmc2gym's order of operations: with limits of -1 and 1 controls are equal to the last
        # bit; the quadruped's others it rounds to float32.
        unit = (np.asarray(action, np.float64) + 1.0) / 2.0
        control = unit * (self._high - self._low) + self._low
        reward = 0.0
        for _ in range(self._repeat):
            try:
                time_step = self._env.step(control)
            except PhysicsError:
                return Outcome(reward, terminated=False, truncated=True, diverged=True)
            reward += float(self.task.kept(np.asarray(time_step.reward), self._threshold))
            self._control_steps += 1
            terminated = bool(time_step.last() and time_step.discount == 0.0)
            truncated = self._control_steps >= tasks.EPISODE_CONTROL_STEPS
            if terminated or truncated:
                break
        return Outcome(reward, terminated, truncated, diverged=False)

    def proprioception(self, velocity: bool = True) -> np.ndarray:
        """dm_control's own observation of the present state, its parts in order: float64 [dim].

        Without `velocity`, the part of that name, the velocities of all joints, is left out, and
        others whose names say that they are velocities.

        Directly after `set_state`, sensors of acceleration still show what was before.

        Raises:
          ValueError: velocities are to be left out of an observation without a part of that name,
            which may have them among other numbers, as quadruped's.
        """
        parts = self._env.task.get_observation(self.physics)
        if not velocity and "velocity" not in parts:
            raise ValueError(
                f"dm_control's observation of {self.task.domain} has no part called velocity, but "
                f"{', '.join(parts)}: keep velocities in it"
            )
        wanted = [part for name, part in parts.items() if velocity or "velocity" not in name]
        return np.concatenate([np.ravel(part) for part in wanted])

    def get_state(self) -> dict[str, np.ndarray]:
        """The complete state of the lane; shapes and dtypes depend on the task only.

        It holds the physics with its warm start, the task's random state, the step count, and every
        model array that the start of an episode may change: tasks move targets by moving geoms in
        the model.
        """
        _, key, position, has_gauss, cached_gaussian = self._env.task.random.get_state()
        model = [np.asarray(array, np.float64).ravel() for _, array in self._model_arrays()]
        return {
            "physics": self.physics.get_state(sig=_integration_state()),
            "model": np.concatenate(model),
            "random_key": np.asarray(key, np.uint32),
            "random_position": np.array([position, has_gauss], np.int32),
            "random_gaussian": np.array(cached_gaussian, np.float64),
            "control_steps": np.array(self._control_steps, np.int32),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Restores the lane to the state that `get_state` returned."""
        offset = 0
        for _, array in self._model_arrays():
            values = state["model"][offset : offset + array.size]
            array[...] = values.reshape(array.shape).astype(array.dtype)
            offset += array.size
        position, has_gauss = (int(value) for value in state["random_position"])
        gaussian = float(state["random_gaussian"])
        self._env.task.random.set_state(
            ("MT19937", state["random_key"], position, has_gauss, gaussian)
        )
        self._control_steps = int(state["control_steps"])
        self.physics.set_state(np.array(state["physics"]), sig=_integration_state())
        # As at the end of dm_control's own step: updates all that depends on positions and
        # velocities.
        import mujoco

        mujoco.mj_step1(self.physics.model.ptr, self.physics.data.ptr)
        self._show_terrain()

    def _has_terrain(self) -> bool:
        """All quadrupeds have a terrain in their model; only one walks on it."""
        return bool(np.any(self.physics.model.geom_type == _HEIGHT_FIELD))

    def _show_terrain(self) -> None:
        """Gives the terrain to OpenGL, as dm_control does at the start of an episode."""
        if not self._has_terrain():
            return
        from dm_control.mujoco.wrapper.mjbindings import mjlib

        contexts = self.physics.contexts
        with contexts.gl.make_current() as context:
            context.call(
                mjlib.mjr_uploadHField, self.physics.model.ptr, contexts.mujoco.ptr, _TERRAIN
            )

    def _model_arrays(self) -> list[tuple[str, np.ndarray]]:
        model = self.physics.model.ptr
        terrain = self._has_terrain()
        arrays = []
        for name in sorted(dir(model)):
            if name.startswith(("_", *_DRAWN_ONLY)) or (name == "hfield_data" and not terrain):
                continue
            value = getattr(model, name)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.flags.writeable:
                arrays.append((name, value))
        return arrays


def _integration_state() -> int:
    import mujoco

    return int(mujoco.mjtState.mjSTATE_INTEGRATION)
