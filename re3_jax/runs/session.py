"""A run while it trains: its programs, its state, and what the host remembers of it.

A session knows no file and no terminal. Observers are told what happens in it; nothing that they do
changes what is computed.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from re3_jax.runs import fine_tuning, machine
from re3_jax.runs.build import Runner, build, devices_of, part_of, prepared, refused_by_parts
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError
from re3_jax.runs.host_record import HostRecord
from re3_jax.runs.validate import check_memory
from re3_jax.training.digests import of_seeds
from re3_jax.training.distributed import ALONE, Processes
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.finite import finite_seeds
from re3_jax.training.host_evaluation import Frames
from re3_jax.training.replay_journal import without_frames
from re3_jax.training.train_state import TrainState

Result = TypeVar("Result")

Metrics = Mapping[str, Float[Array | np.ndarray, " seed"]]


class Observer:
    """Is told of a session's progress; does nothing where a method is not overridden."""

    def compiling(self) -> None:
        """The programs are about to be compiled."""

    def compiled(self, session: "Session", seconds: float) -> None:
        """The programs were compiled."""

    def filming(self, session: "Session") -> Frames | None:
        """The list that receives the frames of the evaluation about to begin, if there is one."""
        return None

    def evaluating(self, session: "Session", sha256: Sequence[str]) -> None:
        """An evaluation of the present state begins; `sha256` is the digest of each seed."""

    def evaluated(self, session: "Session", stats: EvalStats) -> None:
        """The evaluation at `record.evaluated_at` is done; `stats` has all seeds."""

    def trained(self, session: "Session", metrics: Metrics) -> None:
        """A chunk is done; `metrics` has all seeds."""

    def not_finite(self, session: "Session", seeds: Sequence[int]) -> None:
        """The agents of these seeds have become NaN or infinite, and others have not."""


class Session:
    """One process's part of a run; `begin` or `resume` gives it its state.

    Attributes:
      config: of the whole run; its `steps` may grow.
      own: of the seeds of this process.
      runner: the programs.
      processes: among which the seeds are divided.
      observers: are told what happens, one after the other.
      record: what the host remembers beside the state.
    """

    def __init__(
        self,
        config: RunConfig,
        runner: Runner,
        processes: Processes = ALONE,
        learned: fine_tuning.Learned | None = None,
    ):
        """Keeps the run's options and programs; `learned` is what a fine-tuned run starts from."""
        self.config, self.runner, self.processes = config, runner, processes
        self.own = part_of(config, processes)
        self.observers: Sequence[Observer] = ()
        self.record = HostRecord()
        self._learned = learned
        self._state: TrainState | None = None
        self._is_compiled = False
        self._evaluator = ThreadPoolExecutor(1, "evaluation")
        self._evaluation: Future[tuple[EvalStats, float]] | None = None
        self._evaluating_at = -1
        self._started = time.monotonic()

    def begin(self) -> None:
        """Sets the state at env frame 0, or that of a run that starts from another."""
        state = self.runner.init(jnp.asarray(self.own.seed_numbers, jnp.int32))
        if self._learned is not None:
            state = fine_tuning.begin(state, self._learned)
        self._set(state, HostRecord())

    def resume(self, state: TrainState, record: HostRecord) -> None:
        """Sets a state that was captured, and the record beside it."""
        self._set(self.runner.resume(state), record)

    def _set(self, state: TrainState, record: HostRecord) -> None:
        self._state, self.record, self._evaluating_at = state, record, record.evaluated_at
        self.restart_clock()

    @property
    def has_begun(self) -> bool:
        """Whether there is a state."""
        return self._state is not None

    @property
    def state(self) -> TrainState:
        """The present state; the next chunk deletes its arrays."""
        assert self._state is not None
        return self._state

    @property
    def all_trained(self) -> bool:
        """Whether `config.steps` env frames are done."""
        return self.record.env_frames >= self.config.steps

    @property
    def complete(self) -> bool:
        """Whether `config.steps` env frames are done, and the last state is evaluated."""
        return self.all_trained and self.record.evaluated_at == self.record.env_frames

    def wall_seconds(self) -> float:
        """Seconds that the run has taken, in all processes one after the other."""
        return time.monotonic() - self._started

    def restart_clock(self) -> None:
        """Leaves out the time since the state was last captured."""
        self._started = time.monotonic() - self.record.wall_seconds

    def run(self, stopped: Callable[[], bool]) -> None:
        """Trains and evaluates until the run is complete, or `stopped` says so after a chunk.

        Raises:
          UsageError: no agent holds numbers any more, only NaN and infinities.
        """
        if not self.complete:
            self._compile()
        while not stopped() and self._advance():
            pass

    def capture(self) -> TrainState:
        """What a checkpoint holds beside the record; a pending evaluation is finished first.

        Raises:
          UsageError: as `run` does.
        """
        # It belongs to a state that restoring the checkpoint discards.
        self._await_evaluation()
        self._check_finite()
        self.record.wall_seconds = self.wall_seconds()
        return self.runner.capture(self.state)

    def close(self) -> None:
        """Ends threads and lanes."""
        self._evaluator.shutdown(wait=False)
        self.runner.close()

    def _advance(self) -> bool:
        """One chunk, after the evaluation that is due; False if the run is complete."""
        if self._evaluation_is_due():
            self._await_evaluation()
            self._start_evaluation()
        self._await_evaluation(wait=self.all_trained)
        if self.complete:
            return False
        self._train()
        return True

    def _compile(self) -> None:
        if self._is_compiled:
            return
        for observer in self.observers:
            observer.compiling()
        _, seconds = _timed(lambda: self.runner.compile(self.state))
        self.record.compile_seconds += seconds
        self._is_compiled = True
        for observer in self.observers:
            observer.compiled(self, seconds)

    def _evaluation_is_due(self) -> bool:
        at, before = self.record.env_frames, self._evaluating_at
        every = self.config.evaluation.every_env_frames
        return before < 0 or (self.all_trained and before != at) or at // every > before // every

    def _check_finite(self) -> None:
        own = finite_seeds(self.state.agent, len(self.own.seed_numbers))
        finite: list[bool] = sum(self.processes.exchange(own), [])
        numbers = zip(self.config.seed_numbers, finite, strict=True)
        seeds = [seed for seed, is_finite in numbers if not is_finite]
        if not any(finite):
            raise UsageError(
                f"at env frame {self.record.env_frames:,} the parameters of every seed are NaN or "
                "infinite: see in train.csv which column was the first, then lower the learning "
                "rate or the weight of the bonus, or mend observations and rewards that are no "
                "numbers; what was saved before is kept"
            )
        if new := [seed for seed in seeds if seed not in self.record.not_finite]:
            self.record.not_finite = seeds
            for observer in self.observers:
                observer.not_finite(self, new)

    def _start_evaluation(self) -> None:
        self._check_finite()
        self._evaluating_at = self.record.env_frames
        digests = of_seeds(without_frames(self.runner.capture(self.state)))
        sha256: list[str] = sum(self.processes.exchange(digests), [])
        for observer in self.observers:
            observer.evaluating(self, sha256)
        films = [observer.filming(self) for observer in self.observers]
        film = next((film for film in films if film is not None), None)
        play = self.runner.start_evaluation(self.state, film)
        self._evaluation = self._evaluator.submit(_timed, play)
        if not self.runner.evaluates_beside_training:
            self._await_evaluation()

    def _await_evaluation(self, wait: bool = True) -> None:
        """Reports the pending evaluation once it is done; `wait` waits for that."""
        if self._evaluation is None:
            return
        if not wait and not all(self.processes.exchange(self._evaluation.done())):
            return
        stats, seconds = self._evaluation.result()
        stats = self.processes.join(stats)
        self._evaluation = None
        self.record.evaluation_seconds += seconds
        self.record.evaluated_at = self._evaluating_at
        self.record.evaluation_return = float(np.mean(stats.return_mean))
        for observer in self.observers:
            observer.evaluated(self, stats)

    def _train(self) -> None:
        chunk = self.runner.env_frames_per_chunk
        (self._state, metrics), seconds = _timed(
            lambda: jax.block_until_ready(self.runner.train(self.state))
        )
        self.record.train_seconds += seconds
        self.record.timed_frames += chunk
        self.record.chunks += 1
        self.record.env_frames += chunk
        metrics = self.processes.join(metrics)
        for observer in self.observers:
            observer.trained(self, metrics)


def ready(
    config: RunConfig, report: Callable[[str], None], processes: Processes = ALONE
) -> Session:
    """The session of a run that this machine can train; nothing has begun or been written.

    Args:
      config: the whole run.
      report: receives one sentence per event in the lanes of the host.
      processes: among which the seeds are divided.

    Raises:
      UsageError: the configuration cannot be run.
    """
    config, spec = prepared(config)
    own = part_of(config, processes)
    learned = fine_tuning.load(own, spec)
    runner = build(own, spec, report)
    with refused_by_parts(config):
        shapes = runner.abstract_state(own.seeds)
    used = devices_of(own)
    check_memory(sum(map(_num_bytes, jax.tree.leaves(shapes))), machine.free_bytes(used), own)
    if learned is not None:
        fine_tuning.check_fits(own, shapes, learned)
    return Session(config, runner, processes, learned)


def _num_bytes(leaf: jax.ShapeDtypeStruct) -> int:
    """Bytes of an array, summed over all devices that have it or a part of it.

    Devices that divide the work of a seed each have all of its arrays, except a divided ring.
    """
    part, there = leaf.sharding.shard_shape(leaf.shape), leaf.sharding.device_set
    return len(there) * math.prod(part) * (leaf.dtype.itemsize or 1)


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Result of `work` and the seconds it took."""
    start = time.monotonic()
    result = work()
    return result, time.monotonic() - start
