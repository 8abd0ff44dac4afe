"""TensorBoard's events, in `tensorboard/` of the run folder."""

from collections.abc import Mapping
from pathlib import Path

from tensorboardX import SummaryWriter

from re3_jax.runs.config import RunConfig


class TensorBoard:
    """Event files."""

    def __init__(self, folder: Path, env_frames: int):
        """Opens the files in `folder`; TensorBoard hides older events after `env_frames`."""
        self.where = str(folder / "tensorboard")
        self._events = SummaryWriter(self.where, purge_step=env_frames + 1)

    def scalars(self, env_frames: int, values: Mapping[str, float]) -> None:
        """Writes one event for each value."""
        for name, value in values.items():
            self._events.add_scalar(name, value, env_frames)

    def sync(self) -> None:
        """Flushes the file."""
        self._events.flush()

    def close(self) -> None:
        """Closes the file."""
        self._events.close()


def open_logger(folder: Path, config: RunConfig, env_frames: int) -> TensorBoard:
    """Opens the event files of a run folder, to go on after `env_frames` (`loggers.open_all`)."""
    del config
    return TensorBoard(folder, env_frames)
