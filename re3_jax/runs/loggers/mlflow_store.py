"""MLflow: one run of MLflow for a run folder, which remembers its id.

MLflow's own variables name the server (MLFLOW_TRACKING_URI) and the experiment
(MLFLOW_EXPERIMENT_NAME, re3_jax by default). Without a server, the store is a SQLite file in
`mlflow/` of the run folder: `mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow/mlflow.db`.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from re3_jax.runs.config import RunConfig, flatten
from re3_jax.runs.errors import UsageError
from re3_jax.runs.loggers.remembered import remembered

PARAMS_AT_ONCE = 100
"""MLflow's limit of one request."""


class MLflow:
    """A run of MLflow."""

    def __init__(self, folder: Path, config: RunConfig):
        """Begins a run of MLflow, or goes on with that of the run folder.

        Raises:
          UsageError: the store cannot be used.
        """
        kept = folder / "mlflow"
        kept.mkdir(parents=True, exist_ok=True)
        local = f"sqlite:///{(kept / 'mlflow.db').resolve()}"
        self.where = os.environ.get("MLFLOW_TRACKING_URI", local)
        # It tells of each table that it makes.
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        with _refusing():
            self._client = MlflowClient(tracking_uri=self.where)
            self._run_id = remembered(
                kept / "run_id", lambda: self._begin(folder.resolve().name, config)
            )
            self._client.update_run(self._run_id, status="RUNNING")

    def _begin(self, name: str, config: RunConfig) -> str:
        experiment_name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "re3_jax")
        experiment = self._client.get_experiment_by_name(experiment_name)
        experiment_id = (
            experiment.experiment_id
            if experiment is not None
            else self._client.create_experiment(experiment_name)
        )
        run_id: str = self._client.create_run(experiment_id, run_name=name).info.run_id
        params = [Param(option, str(value)) for option, value in flatten(config).items()]
        for part in _parts(params, PARAMS_AT_ONCE):
            self._client.log_batch(run_id, params=part)
        return run_id

    def scalars(self, env_frames: int, values: Mapping[str, float]) -> None:
        """Logs all values at once, at the step `env_frames`."""
        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, env_frames) for name, value in values.items()]
        with _refusing():
            self._client.log_batch(self._run_id, metrics=metrics)

    def sync(self) -> None:
        """Does nothing: what was logged is stored."""

    def close(self) -> None:
        """Marks the run as finished, until it is resumed."""
        with _refusing():
            self._client.set_terminated(self._run_id)


def open_logger(folder: Path, config: RunConfig, env_frames: int) -> MLflow:
    """Opens the MLflow run of a run folder: a new one, or the one that the folder remembers.

    `loggers.open_all` calls it. MLflow has no use for `env_frames`.

    Raises:
      UsageError: the store cannot be used.
    """
    del env_frames
    return MLflow(folder, config)


def _parts(params: Sequence[Param], size: int) -> Iterator[Sequence[Param]]:
    return (params[at : at + size] for at in range(0, len(params), size))


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except MlflowException as error:
        said = (str(error).splitlines() or ["it says nothing"])[0]
        raise UsageError(
            f"--loggers mlflow cannot use its store ({said}): name one that answers with "
            "MLFLOW_TRACKING_URI, or leave mlflow out; a run that had begun continues with --resume"
        ) from None
