"""What drives a run, whichever side the environments live on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import jax
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Array, Int

from re3_jax.training.evaluate import EvalStats
from re3_jax.training.seeds import Program
from re3_jax.training.train_state import TrainState

Record = Callable[[np.ndarray], None]
"""Is given one frame, uint8 [height, width, 3], after the other."""


def with_sharding(shapes: Any, sharding: NamedSharding) -> Any:
    """Shapes and dtypes of a state, to restore it into without ever allocating another."""
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), shapes
    )


class Runner(Protocol):
    """Training of several seeds as one: `DeviceRunner`, or `host_loop.HostProgram`.

    Attributes:
      env_frames_per_chunk: env frames that one call of `train` adds to each seed.
      evaluates_beside_training: whether an evaluation may be played in a thread while `train`
        goes on.
    """

    env_frames_per_chunk: int
    evaluates_beside_training: bool = False

    @property
    def restores_environments(self) -> bool:
        """Whether `resume` puts them where they were; else episodes begin anew."""
        return True

    def abstract_state(self) -> TrainState:
        """Shapes and dtypes of the state; allocates nothing."""

    def template(self) -> TrainState:
        """Shapes, dtypes and shardings of a captured state, for `CheckpointStore.restore`."""

    def init(self, seeds: Int[Array, " seed"]) -> TrainState:
        """TrainState at env frame 0."""

    def compile(self, state: TrainState) -> None:
        """Compiles what `train` and `start_evaluation` run."""

    def train(self, state: TrainState) -> tuple[TrainState, dict[str, np.ndarray]]:
        """One chunk; the state given is donated. Metrics are [seed]."""

    def start_evaluation(
        self, state: TrainState, record: Record | None = None
    ) -> Callable[[], EvalStats]:
        """Takes from `state` what it needs; the function returned waits for the result."""

    def capture(self, state: TrainState) -> TrainState:
        """The state with what lives outside of it put in, for a checkpoint."""
        return state

    def resume(self, state: TrainState) -> TrainState:
        """Puts what lives outside of a restored state in its place; the state to go on with."""
        return state

    def close(self) -> None:
        """Ends what lives outside of the state."""


class DeviceRunner(Runner):
    """A `Program`, whose environments are part of its state."""

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
        """The same with shardings."""
        return with_sharding(self.abstract_state(), self._program.sharding)

    def compile(self, state: TrainState) -> None:
        """Compiles both programs, side by side: much of a compilation runs on one core."""
        train, evaluate = self._program.train.lower(state), self._program.evaluate.lower(state)
        with ThreadPoolExecutor(2) as pool:
            self._train, self._evaluate = pool.map(lambda one: one.compile(), (train, evaluate))

    def train(self, state: TrainState) -> tuple[TrainState, dict[str, np.ndarray]]:
        """One chunk; returns when it is done."""
        state, metrics = self._train(state)
        return state, jax.device_get(metrics)

    def start_evaluation(
        self, state: TrainState, record: Record | None = None
    ) -> Callable[[], EvalStats]:
        """Dispatches the episodes; device environments show no frames to record."""
        del record
        stats = self._evaluate(state)
        return lambda: jax.device_get(stats)
