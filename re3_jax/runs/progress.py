"""How far a run is, from its folder alone: its process is not asked, and may be on another machine.

Tables are read while the run writes them, so a row that is not whole yet is left out.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from re3_jax.runs import history, lock, run_folder, summary
from re3_jax.runs.pace import Pace
from re3_jax.runs.terminal import Standing

OPTIONS = ("env", "agent", "bonus", "preset", "seed", "seeds", "steps")
"""Options of a run that a view of it needs."""

Columns = dict[str, Shaped[np.ndarray, "..."]]
"""Column -> its values, as `history.arrays` gives them."""


class Progress(NamedTuple):
    """What the folder of a run shows at one moment.

    Attributes:
      options: of the run.
      train: columns of train.csv.
      evaluations: columns of eval.csv.
      is_complete: whether it ended, with its last evaluation and its last checkpoint.
      is_running: whether a process holds the folder.
      video: the newest one, if there is one.
    """

    options: dict[str, Any]
    train: Columns
    evaluations: Columns
    is_complete: bool
    is_running: bool
    video: Path | None

    @property
    def env_frames(self) -> int:
        """Env frames trained so far, per seed."""
        return int(self.train["env_frames"].max(initial=0))

    def latest(self, columns: Columns, name: str) -> np.ndarray:
        """The newest value [seed] of a column; NaN without one."""
        values = columns.get(name)
        if values is None or not values.size:
            return np.full(self.options["seeds"], math.nan)
        return values[:, -1]

    def standing(self) -> Standing:
        """The numbers of the live line; speed and time to go include evaluations."""
        frames, seconds = self.train["env_frames"], self.train["wall_seconds"]
        at_start = self.evaluations["env_frames"] == 0
        # Before the first evaluation programs were compiled.
        begins = self.evaluations["wall_seconds"][at_start]
        pace = Pace(float(begins.max(initial=0.0)), 0)
        for second, frame in zip(seconds, frames, strict=True):
            pace.add(float(second), int(frame))
        left = max(0, self.options["steps"] - self.env_frames)
        return Standing(
            env_frames=self.env_frames,
            # Whole chunks: the last one may end later.
            total_env_frames=max(self.options["steps"], self.env_frames),
            frames_per_second=pace.frames_per_second(self.options["seeds"]),
            eta_seconds=pace.seconds_for(left),
            evaluation_return=float(np.mean(self.latest(self.evaluations, "return_mean"))),
            intrinsic_reward=float(np.mean(self.latest(self.train, "intrinsic_reward_mean"))),
        )


def read(folder: Path) -> Progress:
    """The progress of the run in a folder.

    Raises:
      UsageError: there is no run, or a table of it is damaged.
    """
    options = run_folder.config_with(OPTIONS, folder)
    return Progress(
        options=options,
        train=history.read(folder / "train.csv", options["seeds"]),
        evaluations=history.read(folder / "eval.csv", options["seeds"]),
        is_complete=summary.is_complete(summary.read(folder), options["steps"]),
        is_running=lock.is_held(folder),
        video=run_folder.newest_video([folder]),
    )
