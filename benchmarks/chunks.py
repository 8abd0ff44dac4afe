"""A program of the device that trains chunk by chunk, and the times of its chunks."""

import statistics
import time

import jax

from re3_jax.training.device_program import DeviceProgram
from re3_jax.training.train_state import TrainState


class TimedChunks:
    """A compiled program, its state, and the times of its turns, each of one chunk."""

    def __init__(self, program: DeviceProgram, state: TrainState):
        """Compiles the training of a chunk."""
        self.state, self.times = state, list[float]()
        started = time.perf_counter()
        self._train = program.train.lower(state).compile()
        self.compile_seconds = time.perf_counter() - started
        self._env_frames = program.env_frames_per_chunk

    def warm_up(self, turns: int) -> None:
        """Trains so many chunks that do not count."""
        for _ in range(turns):
            self.turn()
        self.times.clear()

    def turn(self) -> None:
        """Trains and times one chunk."""
        started = time.perf_counter()
        self.state, metrics = self._train(self.state)
        jax.block_until_ready(metrics)
        self.times.append(time.perf_counter() - started)

    @property
    def seconds(self) -> float:
        """The median time of a chunk."""
        return statistics.median(self.times)

    def report(self, seeds: int, digits: int | None = None) -> dict:
        """Env frames per second of all seeds, and the time of compilation."""
        frames = seeds * self._env_frames
        return {
            "env_frames_per_second": round(frames / self.seconds, digits),
            "fastest_turn": round(frames / min(self.times), digits),
            "slowest_turn": round(frames / max(self.times), digits),
            "compile_seconds": round(self.compile_seconds, 1),
        }
