"""Weights & Biases: one run of W&B for a run folder, which remembers its id.

W&B's own variables decide the rest: WANDB_PROJECT (re3_jax by default), WANDB_ENTITY, and
WANDB_MODE=offline, which writes `wandb/` in the run folder and needs no account. `wandb sync`
uploads that later; the parts of a resumed run have one id, and become one run.
"""

import dataclasses
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

import wandb

from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError
from re3_jax.runs.loggers.remembered import remembered


class WeightsAndBiases:
    """A run of W&B."""

    def __init__(self, folder: Path, config: RunConfig):
        """Begins a run of W&B, or goes on with that of the run folder.

        Raises:
          UsageError: W&B refuses, for example without an account.
        """
        run_id = remembered(folder / "wandb" / "run_id", lambda: uuid.uuid4().hex[:12])
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "re3_jax"),
                name=folder.resolve().name,
                dir=str(folder),
                id=run_id,
                resume="allow",
                config=dataclasses.asdict(config),
                # The number of env frames of a resumed run may have grown.
                allow_val_change=True,
                # The terminal belongs to the live line.
                settings=wandb.Settings(console="off", silent=True),
            )
        except wandb.Error as error:
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(
                f"--loggers wandb cannot begin a run of W&B ({said}): run wandb login, or set "
                "WANDB_MODE=offline to upload later"
            ) from None
        self._run.define_metric("env_frames")
        self._run.define_metric("*", step_metric="env_frames")
        self.where = str(folder / "wandb" if self._run.offline else self._run.url)

    def scalars(self, env_frames: int, values: Mapping[str, float]) -> None:
        """Logs all values at once, with the env frames that are their x-axis."""
        self._run.log({"env_frames": env_frames, **values})

    def sync(self) -> None:
        """Does nothing: W&B's own process writes what it is given."""

    def close(self) -> None:
        """Waits until W&B's own process, which writes and uploads, has everything."""
        self._run.finish()


def open_logger(folder: Path, config: RunConfig, env_frames: int) -> WeightsAndBiases:
    """Opens the W&B run of a run folder: a new one, or the one that the folder remembers.

    `loggers.open_all` calls it. W&B has no use for `env_frames`.

    Raises:
      UsageError: W&B refuses, for example without an account.
    """
    del env_frames
    return WeightsAndBiases(folder, config)
