"""The machine a benchmark ran on, so that no figure is ever read without it."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend

from re3_jax.runs import machine


def on_one_core(benchmark: str, rounds: int) -> dict[str, Any]:
    """Keeps this process, PyTorch too, on one core; what a report begins with."""
    # Other benchmarks run where it is not installed.
    import torch

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    return {"benchmark": benchmark, "hardware": describe(), "rounds": rounds}


def describe() -> dict[str, Any]:
    """Describes this machine and the numerical stack.

    Returns:
      A JSON-ready dict: `cpu` (model name), `avx512` (its widest vectors; half the rate of
      products without), `cores` (usable by this process), `devices`
      (count of each JAX device kind), `platform` (JAX backend), `runtime` (its own words, with the
      version of CUDA), `jax`, `jaxlib`, `python`,
      `system`, `malloc` (glibc's tunables: large pages), and `date` (UTC, ISO 8601, to the
      second).
    """
    kinds = [device.device_kind for device in jax.devices()]
    return {
        "cpu": _cpu_model(),
        "avx512": "avx512f" in _cpu("flags"),
        "cores": machine.usable_cores(),
        "platform": jax.default_backend(),
        "devices": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "runtime": " ".join(jax.extend.backend.get_backend().platform_version.split()),
        "jax": jax.__version__,
        "jaxlib": version("jaxlib"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "malloc": os.environ.get("GLIBC_TUNABLES", ""),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _cpu_model() -> str:
    return _cpu("model name") or platform.processor() or platform.machine()


def _cpu(field: str) -> str:
    """Linux's description of the first processor; "" on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    fields = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in fields if name.strip() == field), "")
