"""The host loop: start or resume, train chunks, evaluate, record, checkpoint.

Nothing that the host does changes what the program computes. A checkpoint holds the whole state,
and CSV files are cut to its length, so a resumed run equals an uninterrupted one.
"""

import contextlib
import dataclasses
import math
import shlex
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.runs import fine_tuning, installing, machine, run_folder, suites, summary, video
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.build import Runner, build, devices_for, part_of, prepared, refused_by_parts
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.host_record import HostRecord
from re3_jax.runs.interrupt import Interrupt
from re3_jax.runs.pace import Pace
from re3_jax.runs.terminal import Standing, Terminal, clock
from re3_jax.runs.validate import check_memory
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.digests import of_seeds
from re3_jax.training.distributed import ALONE, Processes
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.recorder import Recorder
from re3_jax.training.replay_journal import without_frames
from re3_jax.training.train_state import TrainState

Result = TypeVar("Result")

CURVE_SECONDS = 60.0
"""Wall seconds between redraws of curve.png during a run."""

FORETELL_SECONDS = 20.0
"""Wall seconds of training from which the first forecast is made."""


def run(config: RunConfig, processes: Processes = ALONE) -> int:
    """Runs `config` to its end; returns the exit code (0, or 130 and 143 when stopped).

    Each of several processes trains its share of the seeds; the first prints and writes tables.

    Raises:
      UsageError: the configuration cannot be run; nothing was overwritten.
    """
    config, spec = prepared(config)
    own = part_of(config, processes)
    learned = fine_tuning.load(own, spec)
    terminal = Terminal(quiet=not processes.is_first)
    runner = build(own, spec, terminal.say)
    with refused_by_parts(config):
        shapes = runner.abstract_state(own.seeds)
    num_bytes = sum(leaf.size * (leaf.dtype.itemsize or 1) for leaf in jax.tree.leaves(shapes))
    check_memory(num_bytes, machine.free_bytes(), own)
    if learned is not None:
        fine_tuning.check_fits(own, shapes, learned)
    folder = processes.from_first(partial(run_folder.claim, config))
    on_first = partial(terminal.say, "stopping after this chunk; interrupt again to stop at once")
    with contextlib.ExitStack() as stack:
        processes.from_first(lambda: stack.enter_context(run_folder.locked(folder)))
        interrupt = stack.enter_context(Interrupt(on_first))
        stack.enter_context(contextlib.closing(terminal))
        stack.enter_context(contextlib.closing(runner))
        return _Loop(config, runner, folder, terminal, interrupt, learned, processes).run()


@dataclass
class _Loop:
    """One process's part of a run."""

    config: RunConfig
    runner: Runner
    folder: Path
    terminal: Terminal
    interrupt: Interrupt
    learned: fine_tuning.Learned | None = None
    processes: Processes = ALONE
    record: HostRecord = field(default_factory=HostRecord)
    intrinsic_reward: float = math.nan
    evaluation: Future[tuple[EvalStats, float]] | None = None
    foretold: bool = False

    def __post_init__(self) -> None:
        self.own = part_of(self.config, self.processes)
        self.store = CheckpointStore(self.folder / run_folder.CHECKPOINTS, self.processes)
        self.recorder: Recorder | None = None
        self.stopped_by: int | None = None
        self.checkpointed = self.curve_drawn = time.monotonic()
        self.evaluator = ThreadPoolExecutor(1, "evaluation")
        self.videos: dict[str, list[np.ndarray]] = {video.EVALUATION: []}

    def run(self) -> int:
        self._announce()
        state = self._restored() if self.config.resume else None
        if state is None:
            state = self.runner.init(jnp.asarray(self.own.seed_numbers, jnp.int32))
            if self.learned is not None:
                state = fine_tuning.begin(state, self.learned)
        self.processes.from_first(self._open_tables)
        self.started = time.monotonic() - self.record.wall_seconds
        self.pace = Pace(time.monotonic(), self.record.env_frames)
        self.evaluating_at = self.record.evaluated_at
        self._checkpoint(state)
        if not self._complete():
            self._compile(state)
        while not self._stopped():
            if self._evaluation_is_due():
                self._await_evaluation()
                self._start_evaluation(state)
            self._await_evaluation(wait=self._all_trained())
            if self._complete():
                break
            state = self._train(state)
            due = time.monotonic() - self.checkpointed >= self.config.checkpoint_seconds
            if self.processes.exchange(due)[0]:
                self._checkpoint(state)
        self._checkpoint(state)
        foresees = AGENTS[self.config.agent].foresees
        if self._records_video() and foresees is not None and self._complete():
            self.videos[video.PREDICTIONS] = foresees(self.own, state)
        self.evaluator.shutdown()
        if self.recorder is not None:
            self.recorder.close()
        self.store.close()
        self.terminal.close()
        self.processes.from_first(self._report)
        if self._complete() or self.stopped_by is None:
            return 0
        return 128 + self.stopped_by

    def _open_tables(self) -> None:
        with refusing(ValueError):
            self.recorder = Recorder(
                self.folder,
                self.config.seed_numbers,
                tensorboard=self.config.tensorboard,
                keep_bytes=self.record.csv_bytes,
                env_frames=self.record.env_frames,
            )
        if self.config.resume:
            run_folder.write_config(self.folder, self.config)

    def _stopped(self) -> bool:
        """Whether a process was asked to stop; it is the same in all."""
        received = [one for one in self.processes.exchange(self.interrupt.received) if one]
        self.stopped_by = received[0] if received else None
        return bool(received)

    def _records_video(self) -> bool:
        return self.config.video and self.processes.is_first

    def _announce(self) -> None:
        c, say = self.config, self.terminal.say
        used, usable = devices_for(self.own.seeds), jax.local_devices()
        devices = f"{len(used)} {used[0].device_kind} device(s)"
        if len(used) < len(usable):
            remedy = f"SEEDS a multiple of {len(usable)} would use all"
            devices = f"{len(used)} of {len(usable)} {used[0].device_kind} devices ({remedy})"
        if self.processes.count > 1:
            devices += f" of each of {self.processes.count} processes"
        if c.preset == suites.find(c.env)[0].without_accelerator and used[0].platform == "cpu":
            devices += " (no GPU)"
        drawn = f", drawn by {renderer}" if (renderer := suites.drawn_by(c)) else ""
        say(f"{c.title()} of {c.steps:,} env frames on {devices}{drawn} -> {self.folder}")
        if c.pretrain is not None:
            say("pre-training: the agent learns from the bonus alone")
        if c.init is not None:
            say(f"starting from what {c.init} learned")
        if c.resume and (changes := run_folder.changes_since_start(self.folder)):
            say(
                "this machine or these versions differ from those the run began with "
                f"({', '.join(changes)}): it continues, but equality bit for bit is not guaranteed"
            )

    def _restored(self) -> TrainState | None:
        """The last intact checkpoint of the resumed run, if it has one."""
        with refusing(ValueError):
            found = self.store.restore(self.runner.template(self.own.seeds), self.terminal.say)
        if found is None:
            self.terminal.say("this run was stopped before its first checkpoint: starting it")
            return None
        state, record = found
        try:
            self.record = HostRecord(**record)
        except TypeError as error:
            raise UsageError(
                f"the checkpoints in {self.store.folder} come from another version "
                f"({error}): start a new run with another --out"
            ) from None
        self.terminal.say(f"resuming from env frame {self.record.env_frames:,}")
        if not self.runner.restores_environments:
            self.terminal.say(
                "the environments' engine cannot save its state: new episodes begin, "
                "everything else resumes exactly"
            )
        return self.runner.resume(state)

    def _compile(self, state: TrainState) -> None:
        self.terminal.say("compiling ...")
        _, seconds = _timed(lambda: self.runner.compile(state))
        self.record.compile_seconds += seconds
        self.pace = Pace(time.monotonic(), self.record.env_frames)
        self.terminal.say(f"compiled in {seconds:.1f} s")

    def _all_trained(self) -> bool:
        return self.record.env_frames >= self.config.steps

    def _complete(self) -> bool:
        return self._all_trained() and self.record.evaluated_at == self.record.env_frames

    def _evaluation_is_due(self) -> bool:
        at, before = self.record.env_frames, self.evaluating_at
        every = self.config.evaluation.every_env_frames
        return before < 0 or (self._all_trained() and before != at) or at // every > before // every

    def _start_evaluation(self, state: TrainState) -> None:
        self.evaluating_at = self.record.env_frames
        shown = self._records_video() and self._all_trained()
        record = self.videos[video.EVALUATION].append if shown else None
        digests = self.processes.exchange(of_seeds(without_frames(self.runner.capture(state))))
        if self.recorder is not None:
            self.recorder.states(self.evaluating_at, self._wall_seconds(), sum(digests, []))
        play = self.runner.start_evaluation(state, record)
        self.evaluation = self.evaluator.submit(_timed, play)
        if not self.runner.evaluates_beside_training:
            self._await_evaluation()

    def _await_evaluation(self, wait: bool = True) -> None:
        """Records the pending evaluation once it is done; `wait` waits for that."""
        if self.evaluation is None:
            return
        if not wait and not all(self.processes.exchange(self.evaluation.done())):
            return
        stats, seconds = self.evaluation.result()
        stats = self.processes.join(stats)
        self.evaluation = None
        self.record.evaluation_seconds += seconds
        self.record.evaluated_at = self.evaluating_at
        self.record.evaluation_return = float(np.mean(stats.return_mean))
        if self.recorder is not None:
            self.recorder.evaluation(self.evaluating_at, self._wall_seconds(), stats)
        self._show()

    def _train(self, state: TrainState) -> TrainState:
        (state, metrics), seconds = _timed(lambda: jax.block_until_ready(self.runner.train(state)))
        self.record.train_seconds += seconds
        self.record.timed_frames += self.runner.env_frames_per_chunk
        self.record.chunks += 1
        self.record.env_frames += self.runner.env_frames_per_chunk
        metrics = self.processes.join(metrics)
        self.intrinsic_reward = float(np.mean(metrics.get("intrinsic_reward_mean", math.nan)))
        if self.recorder is not None:
            self.recorder.train(self.record.env_frames, self._wall_seconds(), metrics)
        self.pace.add(time.monotonic(), self.record.env_frames)
        if not self.foretold and self.pace.elapsed() >= FORETELL_SECONDS:
            self.foretold = True
            self.terminal.say(f"about {clock(self._seconds_left())} to go")
        self._show()
        return state

    def _checkpoint(self, state: TrainState) -> None:
        # A pending evaluation belongs to a state that restoring this checkpoint discards.
        self._await_evaluation()
        if self.recorder is not None:
            self.record.csv_bytes = self.recorder.sync()
        self.record.wall_seconds = self._wall_seconds()
        # One chunk may have two checkpoints, before and after its evaluation.
        step = 2 * self.record.chunks + (self.record.evaluated_at == self.record.env_frames)
        self.store.save(step, self.runner.capture(state), dataclasses.asdict(self.record))
        self.checkpointed = time.monotonic()
        is_old = self.checkpointed - self.curve_drawn > CURVE_SECONDS
        if self.processes.is_first and self.record.evaluated_at > 0 and is_old:
            summary.draw_curve(self.folder, self.config)
            self.curve_drawn = time.monotonic()

    def _wall_seconds(self) -> float:
        return time.monotonic() - self.started

    def _seconds_left(self) -> float:
        return self.pace.seconds_for(max(0, self.config.steps - self.record.env_frames))

    def _show(self) -> None:
        r, total = self.record, self.config.steps
        self.terminal.show(
            Standing(
                env_frames=r.env_frames,
                total_env_frames=total,
                frames_per_second=r.frames_per_second(self.config.seeds) or math.nan,
                eta_seconds=self._seconds_left(),
                evaluation_return=math.nan if r.evaluation_return is None else r.evaluation_return,
                intrinsic_reward=self.intrinsic_reward,
            )
        )

    def _report(self) -> None:
        """Writes the summary files and prints the last lines."""
        say, complete, r = self.terminal.say, self._complete(), self.record
        if r.evaluated_at >= 0:
            seconds = {name: value for name, value in vars(r).items() if name.endswith("_seconds")}
            timing = {"frames_per_second": r.frames_per_second(self.config.seeds), **seconds}
            reached = summary.write_summary(self.folder, self.config, complete, timing)
            summary.draw_curve(self.folder, self.config)
            for line in summary.lines(self.folder, reached):
                say(line)
        for name, frames in self.videos.items():
            if frames:
                video.write(self.folder / name, frames)
                say(f"video       {self.folder / name}")
        say(f"checkpoint  {self.folder / run_folder.CHECKPOINTS / str(self.store.steps()[-1])}")
        if not complete:
            command = (
                f"{shlex.quote(installing.python())} -m re3_jax.commands.train --out {self.folder}"
            )
            say(f"stopped at env frame {r.env_frames:,}; to resume: {command} --resume")


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.monotonic()
    return work(), time.monotonic() - start
