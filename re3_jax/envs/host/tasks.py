"""The tasks of DeepMind Control by name, and the two sparse ones of the paper.

Names are dm_control's domain and task joined by an underscore. They are listed here, so that
checking a name does not import a physics engine.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from re3_jax.envs.host.config import SparseThreshold
from re3_jax.envs.names import unknown_name

EPISODE_CONTROL_STEPS = 1000
"""Control steps of an episode; an agent step has `action_repeat` of them."""

SPARSE_THRESHOLD = 0.25
"""In the sparse tasks, a control step's reward below this counts as 0."""

PAPER_TASKS = (
    "acrobot_swingup",
    "ball_in_cup_catch",
    "cartpole_balance",
    "cartpole_swingup",
    "cartpole_swingup_sparse",
    "cheetah_run_sparse",
    "finger_spin",
    "hopper_hop",
    "hopper_stand",
    "pendulum_swingup",
    "quadruped_run",
    "reacher_hard",
    "walker_run",
    "walker_run_sparse",
    "walker_walk",
)
"""Bare names: the 15 tasks of the authors' data."""

NEED_GL = {
    "finger_turn_easy": "the target",
    "finger_turn_hard": "the target",
    "quadruped_escape": "the terrain",
    "quadruped_fetch": "the target",
}
"""Task that only GL draws completely -> the essential part that other renderers miss."""

_SUITE: dict[str, dict[str, int]] = {
    "acrobot": {"swingup": 1, "swingup_sparse": 1},
    "ball_in_cup": {"catch": 2},
    "cartpole": {
        "balance": 1,
        "balance_sparse": 1,
        "swingup": 1,
        "swingup_sparse": 1,
        "two_poles": 1,
        "three_poles": 1,
    },
    "cheetah": {"run": 6},
    "dog": {"stand": 38, "walk": 38, "trot": 38, "run": 38, "fetch": 38},
    "finger": {"spin": 2, "turn_easy": 2, "turn_hard": 2},
    "fish": {"upright": 5, "swim": 5},
    "hopper": {"stand": 4, "hop": 4},
    "humanoid": {"stand": 21, "walk": 21, "run": 21, "run_pure_state": 21},
    "humanoid_CMU": {"stand": 56, "walk": 56, "run": 56},
    "lqr": {"lqr_2_1": 1, "lqr_6_2": 2},
    "manipulator": {"bring_ball": 5, "bring_peg": 5, "insert_ball": 5, "insert_peg": 5},
    "pendulum": {"swingup": 1},
    "point_mass": {"easy": 2, "hard": 2},
    "quadruped": {"walk": 12, "run": 12, "escape": 12, "fetch": 12},
    "reacher": {"easy": 2, "hard": 2},
    "stacker": {"stack_2": 5, "stack_4": 5},
    "swimmer": {"swimmer6": 5, "swimmer15": 14},
    "walker": {"stand": 6, "walk": 6, "run": 6},
}
"""Domain -> task -> length of its action vector."""

_SPARSE = {"cheetah_run_sparse": "cheetah_run", "walker_run_sparse": "walker_run"}
"""The paper's sparse tasks -> the task of the suite whose reward they cut."""


class Task(NamedTuple):
    """The definition of a task.

    Attributes:
      domain: dm_control's domain.
      task: dm_control's task within it.
      action_dim: length of an action.
      action_repeat: control steps per agent step that the authors used.
      camera: number of the camera that the authors drew with.
      sparse: whether a control step's reward below `SPARSE_THRESHOLD` counts as 0.
    """

    domain: str
    task: str
    action_dim: int
    action_repeat: int
    camera: int
    sparse: bool

    def kept(
        self, reward: Float[np.ndarray, "..."], threshold: SparseThreshold
    ) -> Float[np.ndarray, "..."]:
        """What counts of the rewards of single control steps."""
        if not self.sparse:
            return reward
        is_kept = (
            reward >= SPARSE_THRESHOLD if threshold == "inclusive" else reward > SPARSE_THRESHOLD
        )
        return np.where(is_kept, reward, 0.0)


def names() -> tuple[str, ...]:
    """All tasks: the suite's in its own order, then the paper's sparse ones."""
    suite = (f"{domain}_{task}" for domain, tasks in _SUITE.items() for task in tasks)
    return (*suite, *_SPARSE)


def find(task_id: str) -> Task:
    """The task called `task_id` (`cheetah_run_sparse`, `walker_walk`, ...).

    Raises:
      ValueError: if there is no such task; the message offers the nearest names.
    """
    name = _SPARSE.get(task_id, task_id)
    for domain, tasks in _SUITE.items():
        # "humanoid" is also a prefix of the domain "humanoid_CMU".
        task = name.removeprefix(f"{domain}_")
        if task != name and task in tasks:
            quadruped = domain == "quadruped"
            return Task(
                domain=domain,
                task=task,
                action_dim=tasks[task],
                action_repeat=4 if quadruped else 2,
                camera=2 if quadruped else 0,
                sparse=task_id in _SPARSE,
            )
    raise unknown_name("DeepMind Control task", task_id, names())
