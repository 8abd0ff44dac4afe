"""A session in its run folder: start or resume, train, record, checkpoint, report.

Nothing that the host does changes what the program computes. A checkpoint holds the whole state,
and CSV files are cut to its length, so a resumed run equals an uninterrupted one.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import jax

from re3_jax.plural import number_of
from re3_jax.runs import installing, lock, loggers, run_folder, suites, summary, video
from re3_jax.runs.build import devices_of, part_of
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.host_record import HostRecord
from re3_jax.runs.interrupt import Interrupt
from re3_jax.runs.observers import Checkpoints, Display, Film, Picture, Rows
from re3_jax.runs.session import Observer, Session, ready
from re3_jax.runs.terminal import Terminal
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.distributed import ALONE, Processes
from re3_jax.training.recorder import Recorder

Say = Callable[[str], None]
"""Prints one line."""


def run(config: RunConfig, processes: Processes = ALONE) -> int:
    """Runs `config` to its end; returns the exit code (0, or 130 and 143 when stopped).

    Each of several processes trains its share of the seeds; the first prints and writes tables.

    Raises:
      UsageError: the configuration cannot be run; nothing was overwritten.
    """
    # Their network gives up if one comes half a minute late to the first exchange.
    processes.exchange(None)
    if config.video:
        # It is needed at the very end.
        video.encoder()
    terminal = Terminal(quiet=not processes.is_first)
    session = ready(config, terminal.say, processes)
    folder = processes.from_first(partial(run_folder.claim, session.config))
    on_first = partial(terminal.say, "stopping after this chunk; interrupt again to stop at once")
    with contextlib.ExitStack() as stack:
        processes.from_first(lambda: stack.enter_context(lock.held(folder)))
        interrupt = stack.enter_context(Interrupt(on_first))
        stack.enter_context(contextlib.closing(terminal))
        stack.enter_context(contextlib.closing(session))
        stopped_by = record(session, folder, terminal, lambda: interrupt.received)
    if session.complete or stopped_by is None:
        return 0
    return 128 + stopped_by


def record(
    session: Session, folder: Path, terminal: Terminal, received: Callable[[], int | None]
) -> int | None:
    """Trains a session in a folder that is claimed and locked.

    Args:
      session: is begun or restored if it has no state.
      folder: the run folder.
      terminal: is closed at the end.
      received: the signal that asks this process to stop, if one came.

    Returns:
      The signal that stopped the run; None if it was not stopped.

    Raises:
      UsageError: the folder cannot be resumed; nothing was overwritten.
    """
    config, processes, say = session.config, session.processes, terminal.say
    for line in opening_lines(config, session.runner.env_frames_per_chunk, processes, folder):
        say(line)
    store = CheckpointStore(folder / run_folder.CHECKPOINTS, processes)
    if not session.has_begun and not (config.resume and restored(session, store, say)):
        session.begin()
    recorders: list[Recorder] = []
    processes.from_first(lambda: recorders.append(_open_tables(session, folder)))
    film = Film() if config.video and processes.is_first else None
    with contextlib.ExitStack() as tables:
        for recorder in recorders:
            tables.enter_context(contextlib.closing(recorder))
        stopped_by = _train(session, folder, store, recorders, film, terminal, received)
    store.close()
    terminal.close()
    processes.from_first(lambda: _report(session, folder, film, say))
    return stopped_by


def _train(
    session: Session,
    folder: Path,
    store: CheckpointStore,
    recorders: Sequence[Recorder],
    film: Film | None,
    terminal: Terminal,
    received: Callable[[], int | None],
) -> int | None:
    """Trains between two checkpoints; the signal that stopped it, if one did.

    Args:
      session: has a state.
      folder: as in `record`.
      store: where the checkpoints go.
      recorders: the tables, in the first process; none in others.
      film: receives the frames of the last evaluation.
      terminal: as in `record`.
      received: as in `record`.
    """
    processes, say = session.processes, terminal.say
    for logger in (logger for recorder in recorders for logger in recorder.loggers):
        say(f"logging to  {logger.where}")
    checkpoints = Checkpoints(store, next(iter(recorders), None))
    on_first: list[Observer] = [Picture(folder)] if processes.is_first else []
    rows = [Rows(recorder) for recorder in recorders]
    films = [film] if film is not None else []
    session.observers = [*rows, Display(terminal, session), checkpoints, *on_first, *films]
    stopped_by: int | None = None

    def stopped() -> bool:
        """Whether a process was asked to stop; it is the same in all."""
        nonlocal stopped_by
        stopped_by = next(filter(None, processes.exchange(received())), None)
        return stopped_by is not None

    checkpoints.save(session)
    session.run(stopped)
    checkpoints.save(session)
    session.observers = ()
    return stopped_by


def restored(session: Session, store: CheckpointStore, say: Say) -> bool:
    """Sets the last intact checkpoint in a session; False if there is none.

    Raises:
      UsageError: all checkpoints are damaged, or another version wrote them.
    """
    with refusing(ValueError):
        found = store.restore(session.runner.template(session.own.seeds), say)
    if found is None:
        say("this run was stopped before its first checkpoint: starting it")
        return False
    state, values = found
    try:
        record = HostRecord(**values)
    except TypeError as error:
        raise UsageError(
            f"the checkpoints in {store.folder} come from another version "
            f"({error}): start a new run with another --out"
        ) from None
    say(f"resuming from env frame {record.env_frames:,}")
    if not session.runner.restores_environments:
        say(
            "the environments' engine cannot save its state: new episodes begin, "
            "everything else resumes exactly"
        )
    session.resume(state, record)
    return True


def opening_lines(
    config: RunConfig, chunk: int, processes: Processes = ALONE, folder: Path | None = None
) -> Iterator[str]:
    """What is trained, on which devices, and where it is written; `chunk` is in env frames."""
    own, usable = part_of(config, processes), jax.local_devices()
    per_seed, used = config.devices_per_seed, devices_of(own)
    devices = number_of(len(used), f"{used[0].device_kind} device")
    if len(used) < len(usable):
        remedy = f"a multiple of {number_of(len(usable) // per_seed, 'seed')} would use all"
        devices = f"{len(used)} of {len(usable)} {used[0].device_kind} devices ({remedy})"
    if per_seed > 1:
        devices += f", {per_seed} for each seed"
    if processes.count > 1:
        devices += f" of each of {processes.count} processes"
    if config.preset == suites.find(config.env)[0].without_accelerator:
        devices += " (no GPU)" if used[0].platform == "cpu" else ""
    drawn = f", drawn by {renderer}" if (renderer := suites.drawn_by(config)) else ""
    where = f" -> {folder}" if folder else ""
    frames = f"{-(-config.steps // chunk) * chunk:,} env frames"
    if config.steps % chunk:
        frames += f" ({config.steps:,}, in whole chunks of {chunk:,})"
    yield f"{config.title()} of {frames} on {devices}{drawn}{where}"
    if config.pretrain is not None:
        yield "pre-training: the agent learns from the bonus alone"
    if config.init is not None:
        yield f"starting from what {config.init} learned"
    if config.resume and folder and (changes := run_folder.changes_since_start(folder)):
        yield (
            "this machine or these versions differ from those the run began with "
            f"({', '.join(changes)}): it continues, but equality bit for bit is not guaranteed"
        )


def _open_tables(session: Session, folder: Path) -> Recorder:
    config, record = session.config, session.record
    with refusing(ValueError):
        recorder = Recorder(folder, config.seed_numbers, keep_bytes=record.csv_bytes)
    try:
        recorder.loggers = loggers.open_all(folder, config, record.env_frames)
    except UsageError:
        recorder.close()
        raise
    if config.resume:
        run_folder.write_config(folder, config)
    return recorder


def _report(session: Session, folder: Path, film: Film | None, say: Say) -> None:
    """Writes the summary files and the videos, and prints the last lines."""
    r, damaged = session.record, None
    try:
        for line in summary.write(folder, session.config, session.complete, r):
            say(line)
    except UsageError as error:
        # A table that was damaged meanwhile: it is said after all else is kept.
        damaged = error
    for path in film.write(session, folder) if film else ():
        say(f"video       {path}")
    film_file = folder / video.EVALUATION
    is_filmed = suites.shows_frames(session.config.env)
    if film and is_filmed and session.complete and not film_file.exists():
        # The frames ended with the process that failed to write them, or was killed.
        say(f"video       none was written; to make one: {installing.filming(folder, film_file)}")
    say(f"checkpoint  {folder / run_folder.CHECKPOINTS / str(r.checkpoint)}")
    if not session.complete:
        say(f"stopped at env frame {r.env_frames:,}; to resume: {installing.resuming(folder)}")
    if damaged:
        raise damaged
