"""The machine a benchmark ran on, so that no figure is ever read without it."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from experiments import machine


def describe() -> dict[str, Any]:
    """Describe this machine and the numerical stack.

    Returns:
      A JSON-ready dict: `cpu` (model name), `cores` (usable by this process), `devices`
      (count of each JAX device kind), `platform` (JAX backend), `jax`, `jaxlib`, `python`,
      `system`, `malloc` (glibc's tunables: large pages), and `date` (UTC, ISO 8601, to the
      second).
    """
    kinds = [device.device_kind for device in jax.devices()]
    return {
        "cpu": _cpu_model(),
        "cores": machine.usable_cores(),
        "platform": jax.default_backend(),
        "devices": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "jax": jax.__version__,
        "jaxlib": version("jaxlib"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "malloc": os.environ.get("GLIBC_TUNABLES", ""),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
