"""Starts processes as torchrun does, with variables that say how many there are."""

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import virtual_devices

ROOT = Path(__file__).parents[2]

Started = list[subprocess.Popen[str]]


def launch(count: int, command: Sequence[str], devices: int = 1) -> Started:
    """`python COMMAND` in `count` processes with so many (virtual) devices each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # JAX's coordinator takes the port after the launcher's.
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port - 1}", "WORLD_SIZE": f"{count}"}
    environment = virtual_devices.environment(devices)
    environment["XLA_FLAGS"] += " --xla_backend_optimization_level=0"
    return [
        subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**environment, **shared, "RANK": f"{rank}"},
        )
        for rank in range(count)
    ]


def finished(processes: Started, timeout: float = 1200) -> list[str]:
    """What each wrote to standard output; all must end well."""
    try:
        outputs = [process.communicate(timeout=timeout) for process in processes]
    except subprocess.TimeoutExpired:
        for process in processes:
            process.kill()
        raise
    for process, (_, err) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, err
    return [out for out, _ in outputs]
