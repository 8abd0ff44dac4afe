"""Several runs of a figure at a time, each with cores of its own.

Starting, compiling, evaluating and drawing take one core, and so does training where the cores do
not divide the seeds: small runs are through sooner side by side. Where one run fills the machine
or holds the only accelerator, one at a time is right, which is the default.
"""

import os
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import TypeVar

from experiments.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")


class Jobs:
    """Starts processes, so many at once; to be shared by the threads that ask for them."""

    def __init__(self, at_once: int = 1):
        """Divides the cores.

        Args:
          at_once: number of processes that may run at a time.

        Raises:
          UsageError: this process may not use as many cores.
        """
        usable = sorted(os.sched_getaffinity(0))
        if not 1 <= at_once <= len(usable):
            raise UsageError(f"--jobs must be from 1 to {len(usable)}, the usable cores")
        self.at_once = at_once
        self._shares: Queue[list[int]] = Queue()
        for first in range(at_once):
            self._shares.put(usable[first::at_once])
        self._guard = threading.Lock()
        self._locks: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """`function` of each of `items`, in their order; at the same time unless it is one a time.

        Raises:
          BaseException: what `function` raised, once what had begun is through.
        """
        items = list(items)
        if self.at_once == 1 or len(items) < 2:
            return [function(item) for item in items]
        # Threads wait here for processes: `run` is what holds back more than `at_once`.
        with ThreadPoolExecutor(len(items)) as pool:
            futures = [pool.submit(function, item) for item in items]
            return [future.result() for future in futures]

    @contextmanager
    def alone_in(self, folder: Path) -> Iterator[None]:
        """No two threads make the same run: the second finds it finished."""
        with self._guard:
            lock = self._locks[folder]
        with lock:
            yield

    def run(self, command: Sequence[str], name: str, log: Path) -> int:
        """Runs a command when there are cores for it.

        Args:
          command: what to run.
          name: what to call it in a line on standard output, unless it is one at a time.
          log: file for its output, unless it is one at a time: then it is not redirected.

        Returns:
          its exit code.
        """
        if self.at_once == 1:
            return subprocess.run(command, check=False).returncode
        share = self._shares.get()
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as out:
                process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
                os.sched_setaffinity(process.pid, share)
                code = process.wait()
        finally:
            self._shares.put(share)
        print(f"{name}: {'done' if code == 0 else f'exit code {code}, see {log}'}", flush=True)
        return code


ONE_AT_A_TIME = Jobs()
