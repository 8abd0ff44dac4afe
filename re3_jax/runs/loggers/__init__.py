"""Where a run's numbers go beside its CSV files: TensorBoard, Weights & Biases, MLflow.

Each is a name in `--loggers`; its package is imported only where it is named. All get the same
scalars: the columns of train.csv as means over seeds under `train/`, and evaluation returns under
`evaluation/`, with env frames on the x-axis. A resumed run goes on in the same record of each.
"""

import importlib
from pathlib import Path
from typing import NamedTuple

from re3_jax.envs.names import pip_install, unknown_name
from re3_jax.runs import installing
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError
from re3_jax.training.recorder import Logger

NONE = "none"
"""The value of `--loggers` that names no logger."""


class Kind(NamedTuple):
    """A logger: its package, and the room here that opens it."""

    package: str
    room: str


LOGGERS = {
    "tensorboard": Kind("tensorboardX", "re3_jax.runs.loggers.tensorboard"),
    "wandb": Kind("wandb", "re3_jax.runs.loggers.weights_and_biases"),
    "mlflow": Kind("mlflow", "re3_jax.runs.loggers.mlflow_store"),
}


def names(loggers: str) -> list[str]:
    """The names in the value of `--loggers`.

    Raises:
      UsageError: one is unknown or named twice, or none is named beside others.
    """
    found = [] if loggers == NONE else loggers.split(",")
    if NONE in found:
        raise UsageError(f"--loggers {loggers} names {NONE} beside others: leave it out")
    for name in found:
        if name not in LOGGERS:
            raise UsageError(
                f"--loggers {loggers}: {unknown_name('logger', name, [*LOGGERS, NONE])}"
            )
        if found.count(name) > 1:
            raise UsageError(f"--loggers {loggers} names {name} twice: leave one out")
    return found


def check_installed(config: RunConfig) -> None:
    """Refuses loggers whose package is missing, before anything is trained.

    Raises:
      UsageError: with the command that installs it.
    """
    for name in names(config.loggers):
        package = LOGGERS[name].package
        if installing.version(package) is None:
            raise UsageError(
                f"--loggers {name} needs the package {package}: {pip_install(package)}, "
                "or leave it out"
            )


def open_all(folder: Path, config: RunConfig, env_frames: int) -> list[Logger]:
    """The loggers of a run, whose packages are installed.

    Args:
      folder: of the run; all that a logger writes is in it, unless the user names a server.
      config: of the run.
      env_frames: where the run goes on; 0 for a new one.

    Raises:
      UsageError: a logger cannot be used, such as one without an account.
    """
    rooms = [importlib.import_module(LOGGERS[name].room) for name in names(config.loggers)]
    return [room.open_logger(folder, config, env_frames) for room in rooms]
