"""What the host remembers of a run beside its state."""

from dataclasses import dataclass, field


@dataclass
class HostRecord:
    """What the host must remember beside the state; the JSON part of a checkpoint.

    Seconds are summed over all processes of the run, without the time between them.
    `timed_frames` are the env frames per seed trained in `train_seconds`; `not_finite` are the
    numbers of the seeds whose agents became NaN or infinite.
    """

    chunks: int = 0
    env_frames: int = 0
    evaluated_at: int = -1
    evaluation_return: float | None = None
    wall_seconds: float = 0.0
    train_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    compile_seconds: float = 0.0
    timed_frames: int = 0
    not_finite: list[int] = field(default_factory=list)
    csv_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def checkpoint(self) -> int:
        """Number of the checkpoint: a chunk may have two, before and after its evaluation."""
        return 2 * self.chunks + (self.evaluated_at == self.env_frames)

    def timing(self, num_seeds: int) -> dict[str, float | None]:
        """Speed and seconds, for summary.json."""
        seconds = {name: value for name, value in vars(self).items() if name.endswith("_seconds")}
        return {"frames_per_second": self.frames_per_second(num_seeds), **seconds}

    def frames_per_second(self, num_seeds: int) -> float | None:
        """Env frames of all seeds per second of training; None before any."""
        return self.timed_frames * num_seeds / self.train_seconds if self.timed_frames else None
