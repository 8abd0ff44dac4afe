"""Runs from Python: `re3_jax.train` and `re3_jax.load`, the command line without its process."""

import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped, UInt8

from re3_jax.runs import (
    evaluation,
    given_files,
    history,
    labels,
    lock,
    loggers,
    machine,
    python_options,
    run_folder,
    summary,
    video,
)
from re3_jax.runs.build import cpu_devices, fitted, task_spec
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError, refuse_lack_of_memory, refusing
from re3_jax.runs.interrupt import deferred
from re3_jax.runs.observers import Checkpoints, Display, Rows
from re3_jax.runs.options import checked, parse
from re3_jax.runs.python_options import words_of
from re3_jax.runs.run import opening_lines, record, restored
from re3_jax.runs.session import Session, ready
from re3_jax.runs.terminal import Terminal
from re3_jax.runs.validate import sizes, validate, validate_for_task
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.host_evaluation import Frames
from re3_jax.training.recorder import Recorder, Tables, read_tables
from re3_jax.training.train_state import TrainState

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from re3_jax.runs.curves import Curve


def train(
    env: str = "doorkey_6x6",
    agent: str | None = None,
    bonus: str = "re3",
    *,
    seeds: int | None = None,
    steps: int | None = None,
    preset: str | None = None,
    progress: bool = True,
    out: str | Path | None = None,
    **options: Any,
) -> "Run":
    """Trains independent seeds, as `python -m re3_jax.commands.train` does.

    Ctrl-C stops after the present chunk and returns what there is; `Run.train` goes on exactly. A
    second Ctrl-C raises `KeyboardInterrupt` at once.

    Args:
      env: the task, such as `doorkey_6x6` or `gymnax:CartPole-v1`.
      agent: by default the task's.
      bonus: the intrinsic reward; "none" for none.
      seeds: their number; by default the preset's.
      steps: env frames per seed; by default the preset's.
      preset: by default `recommended`, or what suits a machine without an accelerator.
      progress: shows a live line; otherwise nothing is printed.
      out: run folder to write; by default nothing is written.
      **options: any other option by its name in `re3_jax.runs.config.RunConfig`, a group of options
        as a dict.

    Raises:
      UsageError: an option is unknown or has no effect, its value is out of range, or this machine
        cannot train the run; the message is the command line's.

    Example:
      >>> import re3_jax
      >>> options = {"seeds": 2, "steps": 1024, "preset": "debug", "progress": False}
      >>> run = re3_jax.train("minigrid:DoorKey-5x5", re3={"beta": 0.01}, **options)
      >>> run.curves["return_mean"].shape  # [seed, evaluation]
      (2, 2)
      >>> run.metrics["intrinsic_reward_mean"].shape  # [seed, chunk]
      (2, 1)
    """
    # A notebook may change its working directory before it goes on.
    out = None if out is None else Path(out).expanduser().absolute()
    python_options.check(bonus, out, options)
    named = {"env": env, "agent": agent, "bonus": bonus, "seeds": seeds, "steps": steps}
    config = parse(words_of({**named, "preset": preset, "out": out, **options}))
    if config.video and out is not None:
        # It is needed at the very end.
        video.encoder()
    machine.use_cpu_devices(cpu_devices(config))
    session = ready(config, Terminal(quiet=not progress).say)
    return Run(session, {}, progress)._go_on()


def load(folder: str | Path, progress: bool = True, *, plugin: str | Path | None = None) -> "Run":
    """The run in a folder at its newest whole checkpoint; the folder is left as it is.

    Args:
      folder: the run folder of a command line, of `train(out=...)` or of `Run.save`.
      progress: whether `Run.train` shows a live line.
      plugin: file of the run's plugin, if it is not where it was as the run was trained.

    Raises:
      UsageError: the folder holds no run of this version, or no whole checkpoint, or the run's
        plugin is missing or is not the file that it was trained with.

    Example:
      >>> import tempfile
      >>> import re3_jax
      >>> options = {"seeds": 2, "steps": 1024, "preset": "debug", "progress": False}
      >>> run = re3_jax.train("minigrid:DoorKey-5x5", re3={"beta": 0.01}, **options)
      >>> folder = run.save(tempfile.mkdtemp() + "/run")
      >>> re3_jax.load(folder, progress=False)
      <Run of minigrid:DoorKey-5x5: a2c + re3, preset debug, 2 seeds: 1,024 of 1,024 env frames>
    """
    folder = Path(folder).expanduser().absolute()
    moved_to = None if plugin is None else Path(plugin).expanduser().absolute()
    run_folder.load_plugin(folder, moved_to)
    config = run_folder.stored_config(folder, "name the folder of a run")
    if moved_to is not None and config.plugin is not None:
        config = dataclasses.replace(config, plugin=str(moved_to))
    run_folder.check_files(config, folder, [given_files.WEIGHTS])
    nothing = UsageError(f"{folder} has no checkpoint to load: train it first")
    # Opening the store would make its folder.
    if not run_folder.has_checkpoint(folder):
        raise nothing
    config = fitted(dataclasses.replace(config, out=str(folder), resume=True))
    say = Terminal(quiet=not progress).say
    session = ready(config, say)
    with contextlib.ExitStack() as on_error:
        on_error.callback(session.close)
        with contextlib.closing(CheckpointStore(folder / run_folder.CHECKPOINTS)) as store:
            if not restored(session, store, say):
                raise nothing
        with refusing(ValueError):
            tables = read_tables(folder, session.record.csv_bytes)
        on_error.pop_all()
    session.config = dataclasses.replace(session.config, out=None, resume=False)
    return Run(session, tables, progress)


class Run:
    """A run in this process, made by `train` and `load`; it can be trained further."""

    def __init__(self, session: Session, tables: dict[str, bytes], progress: bool):
        """`tables` are the texts of the run's tables so far."""
        self._session, self._tables, self._progress = session, tables, progress
        self._is_whole = True
        weakref.finalize(self, session.close)

    def __repr__(self) -> str:
        config, done = self.config, self._session.record.env_frames
        return f"<Run of {config.title()}: {done:,} of {config.steps:,} env frames>"

    @property
    def config(self) -> RunConfig:
        """Everything that decides what the run computes."""
        return self._session.config

    @property
    def state(self) -> TrainState:
        """The present state; every array leads with the seed. `train` deletes its arrays."""
        session = self._whole()
        return session.runner.capture(session.state)

    @property
    def curves(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """The evaluations, as in eval.csv.

        Returns:
          `env_frames` int64 [evaluation] and `wall_seconds` [evaluation]; `return_mean`,
          `return_std`, `length_mean` (agent steps) and `episodes`, float64 [seed, evaluation].
        """
        return history.of_text(self._tables, "eval.csv", self.config.seeds)

    @property
    def metrics(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """The rows of training, as in train.csv: one for each chunk.

        Returns:
          `env_frames` int64 [chunk] and `wall_seconds` [chunk]; every metric of the agent and of
          the bonus float64 [seed, chunk], NaN where a chunk has none.
        """
        return history.of_text(self._tables, "train.csv", self.config.seeds)

    def train(self, steps: int | None = None) -> "Run":
        """Goes on exactly as if the run had never stopped.

        Args:
          steps: env frames per seed in all, as long as before or longer; by default what is left
            of a run that was stopped.

        Returns:
          This run. It is written to disk if it was trained with `out`.

        Raises:
          UsageError: the run would be shorter, or another process has continued it in its folder.
        """
        session, before = self._whole(), self.config
        if steps is not None:
            frames = checked(f"--{before.length}", str(steps), int)
            config = dataclasses.replace(before, **{"steps": frames, before.length: frames})
            run_folder.refuse_shorter(config, before, "this run")
            validate(config)
            validate_for_task(config, task_spec(config))
            session.config = config
        try:
            return self._go_on()
        except UsageError:
            if self._is_whole:
                session.config = before
            raise

    def evaluate(self, episodes: int | None = None, greedy: bool | None = None) -> dict[str, Any]:
        """Statistics of episodes of the present state, as `re3_jax.commands.evaluate` prints.

        At one env frame the episodes are always the same: where the run has evaluated, those of its
        `curves`.

        Args:
          episodes: per seed; by default the run's own number.
          greedy: take the most probable action; by default as the run does.

        Returns:
          `env_frames`, `episodes`, `greedy`, `return_mean` over all seeds, and for each seed in
          `seeds` its `return_mean`, `return_std` and `length_mean` (agent steps).

        Raises:
          UsageError: there are too few or too many episodes, or the run was left in the middle of a
            chunk.
        """
        config = evaluation.asked(self.config, episodes, greedy)
        return evaluation.described(config, self._play(config), self._session.record.env_frames)

    def video(
        self, path: str | Path | None = None
    ) -> Path | UInt8[np.ndarray, "frame height width 3"]:
        """The first episode of the first seed's evaluation; only of DeepMind Control and Atari.

        Args:
          path: MP4 to write; by default none is.

        Returns:
          The path, or the frames.

        Raises:
          UsageError: the task is of another suite, no MP4 can be written here or by that name, or
            the run was left in the middle of a chunk.
        """
        evaluation.check_films(self.config)
        file = None if path is None else Path(path).expanduser()
        if file:
            video.check_name(file)
        frames: list[np.ndarray] = []
        self._play(self.config, frames)
        if file is None:
            return np.stack(frames)
        video.write(file, frames)
        return file

    def plot(self) -> "Figure":
        """The picture of curve.png: mean evaluation return over seeds, with its 95% band.

        Raises:
          UsageError: the run has no evaluation yet.
        """
        return summary.picture(self._curve(), self.config)

    def save(self, folder: str | Path) -> Path:
        """Writes the run folder that the command line writes; returns its path.

        `--resume --out FOLDER` continues it, and `re3_jax.load` reads it.

        Raises:
          UsageError: the folder is not empty or cannot be written, or a table is damaged.
        """
        session, folder = self._whole(), Path(folder).expanduser()
        if (folder / run_folder.CONFIG).exists():
            raise UsageError(f"{folder} already holds a run: save this one in a new folder")
        config = dataclasses.replace(self.config, out=str(folder), resume=False)
        history.check(self._tables, config.seed_numbers)
        path = run_folder.claim(config)
        with lock.held(path), contextlib.ExitStack() as stack:
            recorder = Recorder(path, config.seed_numbers, keep_bytes={})
            stack.enter_context(contextlib.closing(recorder))
            recorder.loggers = loggers.open_all(path, config, 0)
            store = CheckpointStore(path / run_folder.CHECKPOINTS)
            stack.enter_context(contextlib.closing(store))
            history.replay(self._tables, config.seeds, recorder)
            session.restart_clock()
            Checkpoints(store, recorder).save(session)
            list(summary.write(path, config, session.complete, session.record))
        return path

    def _whole(self) -> Session:
        """The session, unless it was left in the middle of a chunk."""
        if not self._is_whole:
            raise UsageError(
                "this run was left in the middle of a chunk: begin another with re3_jax.train, or "
                "load its folder if it has one"
            )
        return self._session

    def _play(self, config: RunConfig, film: Frames | None = None) -> EvalStats:
        say = Terminal(quiet=not self._progress).say
        return evaluation.played(self._whole(), config, film, say)

    def _curve(self) -> "Curve":
        from re3_jax.runs.curves import Curve

        if self._session.record.evaluated_at < 0:
            raise UsageError("this run has no evaluation yet: go on with .train()")
        found = self.curves
        return Curve(
            labels.of(self.config.agent, self.config.bonus),
            found["env_frames"],
            found["return_mean"],
        )

    def _go_on(self) -> "Run":
        """Trains to the end or to Ctrl-C."""
        terminal = Terminal(quiet=not self._progress)
        on_first = partial(terminal.say, "stopping after this chunk; again to stop at once")
        with (
            refuse_lack_of_memory(f"--seeds, {sizes(self.config)}"),
            contextlib.closing(terminal),
            deferred(on_first) as received,
        ):
            if self.config.out is None:
                self._in_memory(terminal, received)
            else:
                self._in_folder(Path(self.config.out), terminal, received)
        return self

    def _in_memory(self, terminal: Terminal, received: Callable[[], int | None]) -> None:
        session, say = self._session, terminal.say
        for line in opening_lines(self.config, session.runner.env_frames_per_chunk):
            say(line)
        tables = Tables.in_memory(self.config.seed_numbers, self._tables)
        session.observers = [Rows(tables), Display(terminal, session)]
        with self._in_one_piece():
            if session.has_begun:
                session.restart_clock()
            else:
                session.begin()
            try:
                session.run(lambda: received() is not None)
                session.capture()
            finally:
                # What led to an error is in them.
                self._tables = tables.contents()
        terminal.close()
        if session.record.evaluated_at >= 0:
            reached = summary.values(self._curve(), self.config, session.complete, session.record)
            say(summary.headline(reached))
        if not session.complete:
            say(f"stopped at env frame {session.record.env_frames:,}; .train() goes on")

    def _in_folder(
        self, folder: Path, terminal: Terminal, received: Callable[[], int | None]
    ) -> None:
        session = self._session
        run_folder.claim(self.config)
        with lock.held(folder):
            if session.has_begun:
                if run_folder.newest_checkpoint(folder) != session.record.checkpoint:
                    raise UsageError(
                        f"another process has continued the run in {folder}: load it from there"
                    )
                session.restart_clock()
            with self._in_one_piece():
                record(session, folder, terminal, received)
                self._tables = read_tables(folder, session.record.csv_bytes)
        session.config = dataclasses.replace(self.config, resume=True)

    @contextlib.contextmanager
    def _in_one_piece(self) -> Iterator[None]:
        """Marks the run as broken if the block ends in an error, and ends its lanes.

        The state and the tables may then be at different places.
        """
        self._is_whole = False
        try:
            yield
        except BaseException:
            # Python would wait for a running evaluation, and whoever keeps the error for workers.
            self._session.close()
            raise
        self._is_whole = True
