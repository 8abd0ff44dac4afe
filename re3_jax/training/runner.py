"""What drives a run, whichever side the environments live on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from re3_jax.training.evaluate import EvalStats
from re3_jax.training.host_evaluation import Record
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.seeds import Program, with_sharding
from re3_jax.training.train_state import TrainState


class DeviceRunner:
    """A `Program`, whose environments are part of its state.

    Attributes:
      env_frames_per_chunk: env frames that one call of `train` adds to each seed.
      evaluates_beside_training: whether an evaluation may be played in a thread while `train`
        goes on.
      restores_environments: whether `resume` puts them where they were; else episodes begin anew.
      init: seed numbers -> state at env frame 0.
    """

    evaluates_beside_training = False
    restores_environments = True

    def __init__(self, program: Program, num_seeds: int):
        """Nothing is compiled yet."""
        self._program, self._num_seeds = program, num_seeds
        self.env_frames_per_chunk = program.env_frames_per_chunk
        self.init = program.init
        self._train: Callable[..., Any] = program.train
        self._evaluate: Callable[..., Any] = program.evaluate

    def abstract_state(self) -> TrainState:
        """Shapes and dtypes of the state, after a trace of training that finds mistakes."""
        seeds = jax.ShapeDtypeStruct((self._num_seeds,), np.int32)
        shapes = jax.eval_shape(self._program.init, seeds)
        jax.eval_shape(self._program.train, shapes)
        return shapes

    def template(self) -> TrainState:
        """The same with shardings, for `CheckpointStore.restore`."""
        return with_sharding(self.abstract_state(), self._program.sharding)

    def compile(self, state: TrainState) -> None:
        """Compiles both programs, side by side: much of a compilation runs on one core."""
        train, evaluate = self._program.train.lower(state), self._program.evaluate.lower(state)
        with ThreadPoolExecutor(2) as pool:
            self._train, self._evaluate = pool.map(lambda one: one.compile(), (train, evaluate))

    def train(self, state: TrainState) -> tuple[TrainState, dict[str, np.ndarray]]:
        """One chunk; the state given is donated. Metrics are [seed]."""
        state, metrics = self._train(state)
        return state, jax.device_get(metrics)

    def start_evaluation(
        self, state: TrainState, record: Record | None = None
    ) -> Callable[[], EvalStats]:
        """Dispatches the episodes, which show no frames; the function returned waits for them."""
        del record
        stats = self._evaluate(state)
        return lambda: jax.device_get(stats)

    def capture(self, state: TrainState) -> TrainState:
        """What a checkpoint must hold: the state itself."""
        return state

    def resume(self, state: TrainState) -> TrainState:
        """The state to go on with after `restore`: the state itself."""
        return state

    def close(self) -> None:
        """Nothing lives outside of the state."""


Runner = DeviceRunner | HostProgram
"""Training of several seeds as one; the two are used alike."""
