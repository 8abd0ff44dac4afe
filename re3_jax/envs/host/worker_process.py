"""A worker process of lanes as its parent sees it: start, messages, end (io)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from re3_jax.envs.host import gl
from re3_jax.envs.host.lost import Lost
from re3_jax.envs.host.worker import Setup

WAITING_SECONDS = 1.0
"""Longest time counted at once, so that a stop counts for no more than this."""


class Patience:
    """Time for which a process waits for others, counted by its own waiting.

    A clock would count that in which all of them were stopped (Ctrl-Z, a suspended machine), and
    its jumps.

    Attributes:
      seconds: in all.
      left: of them.
    """

    def __init__(self, seconds: float):
        """Begins with all of `seconds` left."""
        self.seconds = self.left = seconds

    def waits_for(self, connection: Connection) -> bool:
        """Waits for an answer in the time that is left; False if none comes."""
        while not connection.poll(part := min(self.left, WAITING_SECONDS)):
            self.left -= part
            if self.left <= 0:
                return False
        return True


class WorkerProcess:
    """A worker seen from the parent; it can be restarted."""

    def __init__(self, setup: Setup, memory_fd: int, environment: dict[str, str]):
        """Starts nothing yet; `memory_fd` stays the caller's."""
        self.lanes = setup.lanes
        self._setup = setup
        self._memory_fd = memory_fd
        self._environment = environment
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Starts the process, after ending the one before it."""
        self.stop()
        # The last line of a dying process (a driver's, the interpreter's) goes into the error.
        self._stderr = tempfile.TemporaryFile()
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "re3_jax.envs.host.worker",
                    str(theirs.fileno()),
                    str(self._memory_fd),
                ],
                env=self._environment,
                pass_fds=(theirs.fileno(), self._memory_fd),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                # Ctrl-C in the terminal is for the parent alone.
                start_new_session=True,
            )
        self.send(*self._setup)

    def send(self, *message: Any) -> None:
        """Sends a message; `wait` finds out whether anyone reads it."""
        try:
            self._connection.send(message)
        except OSError:
            return

    def wait(self, expected: str, patience: Patience) -> Any:
        """The content of the answer called `expected`.

        Raises:
          Lost: if the process died, failed or does not answer in time.
          ValueError: if the worker cannot start because of a ValueError.
        """
        try:
            if not patience.waits_for(self._connection):
                raise Lost(f"did not answer for {patience.seconds:g} s")
            kind, *content = self._connection.recv()
        except (EOFError, OSError):
            raise Lost(f"died{self._last_word()}") from None
        if kind == "failed":
            name, text = content
            if name == "ValueError" and expected == "ready":
                raise ValueError(text)
            raise Lost(f"failed with {name}: {text}")
        if kind != expected:
            raise Lost(f"answered {kind!r} where {expected!r} was due")
        return content[0] if content else None

    def stop(self) -> None:
        """Kills the process and closes its pipe and its error file."""
        if self._process is None:
            return
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._stderr.close()
        self._process = None

    def _last_word(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return ""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f" (exit code {code}{': ' + said[-1] if said else ''})"


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def environment(renderer: str, number: int, count: int) -> dict[str, str]:
    """Variables for worker `number` of `count`.

    Raises:
      ValueError: if the renderer needs GL and there is no driver.
    """
    variables = dict(os.environ)
    root = str(Path(__file__).parents[3])
    variables["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [variables.get("PYTHONPATH")])])
    # Software GL draws with its own threads: limit them to the cores of each worker.
    variables.setdefault("LP_NUM_THREADS", str(max(1, usable_cores() // count)))
    variables.pop("PYOPENGL_PLATFORM", None)
    if renderer == "warp":
        variables["MUJOCO_GL"] = "disable"
        return variables
    driver = gl.probe()
    if driver is None:
        raise ValueError(gl.missing())
    variables["MUJOCO_GL"] = driver.backend
    device = gl.device(number)
    if driver.on_gpu and device is not None:
        variables["MUJOCO_EGL_DEVICE_ID"] = device
    return variables
