"""What observes a session: tables, the live line, checkpoints, the picture, the video."""

import dataclasses
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from re3_jax.plural import plural
from re3_jax.runs import summary, video
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.pace import Pace
from re3_jax.runs.session import Metrics, Observer, Session
from re3_jax.runs.terminal import Standing, Terminal, clock
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.host_evaluation import Frames
from re3_jax.training.recorder import OtherColumnsError, Recorder, Tables

CURVE_SECONDS = 60.0
"""Wall seconds between redraws of curve.png during a run."""

FORETELL_SECONDS = 20.0
"""Wall seconds of training from which the first forecast is made."""


class Rows(Observer):
    """Records chunks, evaluations and digests of states in tables."""

    def __init__(self, tables: Tables):
        """`tables` go on from the session's record; other columns there are a UsageError."""
        self._tables = tables

    def evaluating(self, session: Session, sha256: Sequence[str]) -> None:
        """Adds the digest of each seed's state to the tables."""
        with refusing(OtherColumnsError):
            self._tables.states(session.record.env_frames, session.wall_seconds(), sha256)

    def evaluated(self, session: Session, stats: EvalStats) -> None:
        """Adds the evaluation to the tables."""
        with refusing(OtherColumnsError):
            self._tables.evaluation(session.record.evaluated_at, session.wall_seconds(), stats)

    def trained(self, session: Session, metrics: Metrics) -> None:
        """Adds the chunk to the tables."""
        with refusing(OtherColumnsError):
            self._tables.train(session.record.env_frames, session.wall_seconds(), metrics)


class Display(Observer):
    """Keeps the terminal's live line."""

    def __init__(self, terminal: Terminal, session: Session):
        """Writes to `terminal`; the pace is counted from now on."""
        self._terminal, self._foretold, self._intrinsic_reward = terminal, False, math.nan
        self._begin_pace(session)

    def _begin_pace(self, session: Session) -> None:
        self._pace = Pace(time.monotonic(), session.record.env_frames)

    def compiling(self) -> None:
        """Says that the programs are being compiled."""
        self._terminal.say("compiling ...")

    def compiled(self, session: Session, seconds: float) -> None:
        """Says how long compiling took, which is not a part of the pace."""
        self._begin_pace(session)
        self._terminal.say(f"compiled in {seconds:.1f} s")

    def evaluated(self, session: Session, stats: EvalStats) -> None:
        """Shows the return."""
        self._show(session)

    def trained(self, session: Session, metrics: Metrics) -> None:
        """Shows the progress, and once how long the run will take."""
        self._intrinsic_reward = float(np.mean(metrics.get("intrinsic_reward_mean", math.nan)))
        self._pace.add(time.monotonic(), session.record.env_frames)
        if not self._foretold and self._pace.elapsed() >= FORETELL_SECONDS:
            self._foretold = True
            self._terminal.say(f"about {clock(self._seconds_left(session))} to go")
        self._show(session)

    def not_finite(self, session: Session, seeds: Sequence[int]) -> None:
        """Says which seeds have become NaN or infinite."""
        named = f"{plural(len(seeds), 'seed')} {' '.join(map(str, seeds))}"
        self._terminal.say(
            f"at env frame {session.record.env_frames:,} the parameters of {named} are NaN "
            "or infinite: the others go on"
        )

    def _seconds_left(self, session: Session) -> float:
        return self._pace.seconds_for(max(0, session.config.steps - session.record.env_frames))

    def _show(self, session: Session) -> None:
        r, config = session.record, session.config
        self._terminal.show(
            Standing(
                env_frames=r.env_frames,
                total_env_frames=config.steps,
                frames_per_second=self._pace.frames_per_second(config.seeds),
                eta_seconds=self._seconds_left(session),
                evaluation_return=math.nan if r.evaluation_return is None else r.evaluation_return,
                intrinsic_reward=self._intrinsic_reward,
            )
        )


class Checkpoints(Observer):
    """Saves the session every `config.checkpoint_seconds`."""

    def __init__(self, store: CheckpointStore, recorder: Recorder | None):
        """`recorder` writes the tables that a checkpoint knows the length of; the first process's.

        Nothing is saved before `save`.
        """
        self._store, self._recorder = store, recorder
        self._saved = time.monotonic()

    def compiled(self, session: Session, seconds: float) -> None:
        """Counts the time to the next checkpoint from now: before, there was nothing to lose."""
        self._saved = time.monotonic()

    def trained(self, session: Session, metrics: Metrics) -> None:
        """Saves if it is time to."""
        due = time.monotonic() - self._saved >= session.config.checkpoint_seconds
        if session.processes.exchange(due)[0]:
            self.save(session)

    def save(self, session: Session) -> None:
        """Writes a checkpoint of the present state."""
        state, record = session.capture(), session.record
        if self._recorder is not None:
            record.csv_bytes = self._recorder.sync()
        self._store.save(record.checkpoint, state, dataclasses.asdict(record))
        self._saved = time.monotonic()


class Picture(Observer):
    """Redraws curve.png while a run goes on."""

    def __init__(self, folder: Path):
        """The first picture comes after `CURVE_SECONDS`."""
        self._folder, self._drawn = folder, time.monotonic()

    def trained(self, session: Session, metrics: Metrics) -> None:
        """Draws if it is time to."""
        if session.record.evaluated_at > 0 and time.monotonic() - self._drawn > CURVE_SECONDS:
            self._drawn = time.monotonic()
            try:
                summary.draw_curve(self._folder, session.config)
            except UsageError as error:
                # A damaged table must not end the training.
                print(f"note: curve.png is not drawn again: {error}", file=sys.stderr)
                self._drawn = math.inf


class Film(Observer):
    """Keeps the frames of the last evaluation's first episode."""

    def __init__(self) -> None:
        """There are no frames before the last evaluation."""
        self._frames: list[np.ndarray] = []

    def filming(self, session: Session) -> Frames | None:
        """The frames, once all are trained on."""
        return self._frames if session.all_trained else None

    def write(self, session: Session, folder: Path) -> list[Path]:
        """Writes the MP4s that a finished run has, and returns their paths."""
        videos = {video.EVALUATION: self._frames}
        foresees = AGENTS[session.config.agent].foresees
        if foresees is not None and session.complete:
            videos[video.PREDICTIONS] = foresees(session.own, session.state)
        written = {folder / name: frames for name, frames in videos.items() if frames}
        for path, frames in written.items():
            video.write(path, frames)
        return list(written)
