"""The runs behind a figure: each in its own process, trained once, resumed if interrupted.

Starting, compiling, evaluating and drawing take one core, and so does training if the cores do not
divide the seeds: small runs finish sooner in parallel. The default is one run at a time, which is
right if one run fills the machine or holds the only accelerator.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from types import MappingProxyType
from typing import Any, NamedTuple, Optional, TypeVar

from experiments.figures import command
from re3_jax.plural import number_of
from re3_jax.runs import comparison, run_folder
from re3_jax.runs.config import PresetName, RunConfig, flatten
from re3_jax.runs.errors import UsageError
from re3_jax.runs.given_files import DIGESTS
from re3_jax.runs.option_names import option_name, option_with
from re3_jax.runs.options import no_effect, parse
from re3_jax.runs.resolve import resolve

Item = TypeVar("Item")
Key = TypeVar("Key")
Result = TypeVar("Result")


class Run(NamedTuple):
    """A run to train, by options of `experiments.train`.

    Attributes:
      steps: env frames per seed, not counting those of `init`.
      agent: part of the folder's name unless it is A2C.
      changes: further options, without the leading dashes, a switch with True or False; of a
        path only the last part goes into the folder's name.
      seed: the first seed.
      init: the run that it starts from, seed by seed; it is trained with the same seeds.
    """

    task: str
    bonus: str
    preset: PresetName
    seeds: int
    steps: int
    agent: str = "a2c"
    changes: Mapping[str, str | bool] = MappingProxyType({})
    seed: int = 1
    init: Optional["Run"] = None


class Runs:
    """All runs in a folder; shared by the threads that ask for them."""

    def __init__(self, folder: Path, at_once: int = 1):
        """Divides the cores among `at_once` parallel runs; a UsageError if cores are too few."""
        usable = sorted(os.sched_getaffinity(0))
        if not 1 <= at_once <= len(usable):
            raise UsageError(f"--jobs must be from 1 to {len(usable)}, the usable cores")
        self.folder = folder
        self.at_once = at_once
        self._shares: Queue[list[int]] = Queue()
        for first in range(at_once):
            self._shares.put(usable[first::at_once])
        self._locks: dict[str, threading.Lock] = {}
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopped: int | None = None
        self._done: set[tuple[str, ...]] = set()

    def folder_of(self, run: Run) -> Path:
        """The folder of a run, named after its options: figures that share a run train it once."""
        extra = "".join(
            f"-{name.rpartition('.')[2]}_{Path(str(value)).name}"
            for name, value in self._changes(run).items()
        )
        name = run.task if run.agent == "a2c" else f"{run.task}-{run.agent}"
        return self.folder / f"{name}-{run.bonus}-{run.preset}{extra}"

    def _changes(self, run: Run) -> dict[str, str | bool]:
        changes = dict(run.changes)
        if run.seed != 1:
            changes["seed"] = str(run.seed)
        if before := first_run(run):
            changes["init"] = str(self.folder_of(before))
        return changes

    def config(self, run: Run) -> RunConfig:
        """What `experiments.train` makes of the run's options."""
        return parse(self._words(run))

    def _words(self, run: Run) -> list[str]:
        options = {"env": run.task, "agent": run.agent, "bonus": run.bonus, "preset": run.preset}
        options |= {"seeds": str(run.seeds), "out": str(self.folder_of(run))}
        changes = self._changes(run)
        # `--pretrain` gives the length of a pre-training run.
        if "pretrain" not in changes:
            options["steps"] = str(run.steps)
        words = [option_with(name, value) for name, value in {**options, **changes}.items()]
        return [word for each in words for word in each.split(" ", 1)]

    def finished(self, runs: Iterable[Run]) -> list[Path]:
        """The folders of those runs that are finished, in their order.

        Raises:
          UsageError: a folder holds another number of seeds or a run with other options.
        """
        return [self.folder_of(run) for run in runs if self._is_finished(run)]

    def _is_finished(self, run: Run) -> bool:
        """Whether the folder of a run holds all of it.

        Raises:
          UsageError: it holds another number of seeds or a run with other options.
        """
        folder, words = self.folder_of(run), tuple(self._words(run))
        # What was finished stays so, and a figure asks after every run how far all are.
        if words in self._done:
            return True
        if not (folder / "summary.json").exists():
            return False
        reached = _summary(folder)
        remedy = "or name another folder for all runs with --runs"
        config = self.config(run)
        now = flatten(config)
        if len(reached["final_return"]) != run.seeds:
            raise UsageError(
                f"the run in {folder} has {number_of(len(reached['final_return']), 'seed')}, "
                f"not {run.seeds}: give as many with --seeds, {remedy}"
            )
        then = flatten(run_folder.stored_config(folder, f"move it away, {remedy}"))
        for name, value in now.items():
            is_compared = comparison.divides(name) and name not in ("init", "pretrain")
            # Of a file its contents count.
            is_compared &= name not in DIGESTS or None in (value, then[name])
            # A run's configuration names the renderer that was chosen for `auto`.
            is_compared &= not (name.endswith(".renderer") and value == "auto")
            if is_compared and then[name] != value and no_effect(name, now) is None:
                raise UsageError(
                    f"the run in {folder} has {option_with(name, then[name])}, and this figure "
                    f"needs {option_with(name, value)}: draw it by its name, if the figure takes "
                    f"folders, move it away, {remedy}"
                )
        run_folder.check_files(config, folder)
        # One that was extended may have been interrupted past what is asked for.
        is_whole = bool(reached["complete"]) or then["steps"] > run.steps
        done = is_whole and reached["env_frames"] >= run.steps
        if done:
            self._done.add(words)
        return done

    def state(self, wanted: Iterable[Run]) -> str:
        """How many runs are done, begun and waiting, and the hours until all are done.

        Hours are those of the frames that are missing, at the pace of what has been trained; those
        of pre-training are not counted.
        """
        wanted, pace, missing, done, begun = list(wanted), [], 0, 0, 0
        for run in wanted:
            path, frames = self.folder_of(run) / "summary.json", 0
            if path.exists():
                reached = _summary(path.parent)
                frames = reached["env_frames"]
                pace.append((frames * run.seeds, reached["wall_seconds"]))
            finished = self._is_finished(run)
            done += finished
            begun += not finished and (path.parent / run_folder.CONFIG).exists()
            missing += 0 if finished else max(run.steps - frames, 0) * run.seeds
        trained, seconds = map(sum, zip(*pace, strict=True)) if pace else (0, 0)
        hours = ""
        if trained and seconds:
            at_once = max(1, min(self.at_once, len(wanted) - done))
            hours = f", about {missing * seconds / trained / at_once / 3600:.1f} hours to go"
        waiting = len(wanted) - done - begun
        return f"{done} of {len(wanted)} runs done, {begun} begun, {waiting} waiting{hours}"

    def of_figure(self, wanted: Sequence[Run], train: bool) -> list[Path | None]:
        """The folder of each run, None for one that is not finished if none is to be trained.

        Raises:
          UsageError: none is finished.
        """
        folders: list[Path | None] = (
            [*self.ensure_all(wanted)]
            if train
            else [next(iter(self.finished([run])), None) for run in wanted]
        )
        if not any(folders):
            raise UsageError("none of the runs is finished: leave --finished out to train them")
        return folders

    def ensure(self, run: Run) -> Path:
        """The folder of a finished run, which is trained or resumed if necessary.

        Raises:
          UsageError: the folder holds a run of another number of seeds or with other options.
          SystemExit: the run failed or was stopped; with its exit code.
        """
        if before := first_run(run):
            self.ensure(before)
        folder = self.folder_of(run)
        command = [sys.executable, "-m", "experiments.train", "--loggers", "none"]
        command += self._words(run)
        # Two threads never train the same run: the second finds it finished.
        with self._locks.setdefault(str(folder), threading.Lock()):
            if self._is_finished(run):
                return folder
            if (folder / run_folder.CONFIG).exists():
                command.append("--resume")
            if code := self.start(command, self.folder / f"{folder.name}.log"):
                raise SystemExit(code)
        return folder

    def ensure_all(self, runs: Iterable[Run]) -> list[Path]:
        """`ensure` of each, in their order; a line says how far all are whenever one ends."""
        runs, saying = list(runs), threading.Lock()
        # What cannot be drawn is refused before anything is trained.
        self.finished(runs)

        def ensure(run: Run) -> Path:
            trained = not self._is_finished(run)
            folder = self.ensure(run)
            if trained and len(runs) > 1:
                with saying:
                    print(self.state(runs), flush=True)
            return folder

        return self.map(ensure, runs)

    def _stop(self, number: int, _: object) -> None:
        """SIGTERM ends the runs, which save first; Ctrl-C reaches them by itself."""
        self._stopped = number
        for process in self._processes.copy():
            process.send_signal(number)

    def _tell_late(self, process: subprocess.Popen[bytes]) -> None:
        """For a signal that came before the process was among those that are told."""
        if self._stopped == signal.SIGTERM:
            process.send_signal(signal.SIGTERM)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """`function` of each of `items`, in their order; in parallel unless one runs at a time.

        Raises:
          BaseException: what `function` raised, once all calls that had started are done.
        """
        if threading.current_thread() is not threading.main_thread():
            return self._map(function, items)
        before = signal.signal(signal.SIGTERM, self._stop)
        try:
            return self._map(function, items)
        finally:
            signal.signal(signal.SIGTERM, before)

    def _map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        items = list(items)
        if self.at_once == 1 or len(items) < 2:
            return [function(item) for item in items]
        # Threads only wait for processes; `start` limits these to `at_once`.
        with ThreadPoolExecutor(len(items)) as pool:
            futures = [pool.submit(function, item) for item in items]
            try:
                return [future.result() for future in futures]
            except KeyboardInterrupt:
                self._stopped = signal.SIGINT
                raise SystemExit(128 + signal.SIGINT) from None

    def start(self, command: Sequence[str], log: Path) -> int:
        """Runs a command as soon as cores are free, and returns its exit code.

        If several run in parallel, its output goes to `log`, and a line on standard output says
        when it has ended. After an interruption no further command begins. A process that
        a signal ended has the exit code that a shell gives it.
        """
        if self.at_once == 1:
            return self._run(command)
        share = self._shares.get()
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as out:
                code = self._run(command, share, stdout=out, stderr=subprocess.STDOUT)
        finally:
            self._shares.put(share)
        if self._stopped is None:
            ended = "done" if code == 0 else f"exit code {code}, see {log}"
            # In one write: two runs that end together would share a line otherwise.
            print(f"{log.stem}: {ended}\n", end="", flush=True)
        return code

    def _run(self, command: Sequence[str], cores: Sequence[int] = (), **output: Any) -> int:
        if self._stopped is not None:
            return 128 + self._stopped
        process = subprocess.Popen(command, **output)
        self._processes.add(process)
        self._tell_late(process)
        if cores:
            os.sched_setaffinity(process.pid, cores)
        while process.returncode is None:
            # After Ctrl-C, the run was interrupted too, and saves.
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
        self._processes.discard(process)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode


SUMMARISED = {"complete", "env_frames", "wall_seconds"}
"""What is read of a summary.json, beside the returns."""


def _summary(folder: Path) -> dict[str, Any]:
    """What summary.json says of a run."""
    path = folder / "summary.json"
    with contextlib.suppress(ValueError, TypeError, KeyError):
        found = dict(json.loads(path.read_text()))
        if isinstance(found["final_return"], dict) and found.keys() >= SUMMARISED:
            return found
    raise UsageError(f"{path} is broken: delete it, and its run is resumed")


def seed_by_seed(rows: Iterable[Run], seeds: int, first: int = 1) -> list[Run]:
    """The runs of `seeds` seeds of every row from `first` on, as many at once as its preset.

    All rows of one seed come before the next seed.
    """
    wanted, end = [], first + seeds
    for row in rows:
        at_once = resolve(row.task, row.agent, preset=row.preset).seeds
        for seed in range(first, end, at_once):
            wanted.append(row._replace(seed=seed, seeds=min(at_once, end - seed)))
    return sorted(wanted, key=lambda run: run.seed)


def of_rows(
    words: command.Words, rows: Mapping[Key, Run], seeds: int, first: int = 1
) -> dict[Key, list[tuple[Run, Path]]]:
    """Row -> the runs of its seeds from `first` on, with their folders; trained if necessary.

    With `--finished`, only those that are finished; a row without any is left out.
    """
    wanted = [(key, run) for key, row in rows.items() for run in seed_by_seed([row], seeds, first)]
    wanted.sort(key=lambda one: one[1].seed)
    all_runs, every = Runs(words.runs, words.jobs), [run for _, run in wanted]
    found: dict[Key, list[tuple[Run, Path]]] = {key: [] for key in rows}
    for (key, run), folder in zip(
        wanted, all_runs.of_figure(every, not words.finished), strict=True
    ):
        if folder is not None:
            found[key].append((run, folder))
    return {key: pairs for key, pairs in found.items() if pairs}


def options(folder: Path, *names: str) -> list[str]:
    """The values of these options of the run in a folder; a UsageError if there is no run."""
    config = run_folder.config_with(names, folder)
    return [config[name] for name in names]


def pooled(folders: Sequence[Path], kind: Callable[[Path], Key]) -> dict[Key, comparison.Row]:
    """Kind -> its runs, which differ in their seeds only.

    Raises:
      UsageError: runs of one kind differ otherwise, or a seed is there twice.
    """
    kinds = {folder: kind(folder) for folder in folders}
    found: dict[Key, comparison.Row] = {}
    for row in comparison.rows_of(folders):
        other = found.setdefault(kinds[row.folders[0]], row)
        if other is not row:
            names = comparison.differences([row.options, other.options])
            raise UsageError(
                f"the runs in {other.folders[0]} and {row.folders[0]} differ in "
                f"{', '.join(map(option_name, names))}: give runs that differ in their seeds only"
            )
    return found


def copy_evaluations(folders: Sequence[Path], out: Path) -> list[str]:
    """Copies each run's eval.csv as FOLDER.csv; the folders must have different names."""
    names = [folder.resolve().name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two of the folders are called {name}: rename one")
    out.mkdir(parents=True, exist_ok=True)
    for folder, name in zip(folders, names, strict=True):
        shutil.copyfile(folder / "eval.csv", out / f"{name}.csv")
    return names


def first_run(run: Run) -> Run | None:
    """The run that this one starts from, seed by seed; None if it starts afresh."""
    return run.init and run.init._replace(seeds=run.seeds, seed=run.seed)
