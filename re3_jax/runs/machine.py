"""The machine of a run: versions, git, devices, memory, and the cache of compiled programs."""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import psutil

from re3_jax.runs import installing
from re3_jax.runs.errors import UsageError
from re3_jax.runs.installing import PACKAGES, version

MOST_CPU_DEVICES = 1000
"""JAX makes so many within a second; the time grows with the square."""


def describe() -> dict[str, Any]:
    """Versions, git state, device and command line, for config.json."""
    return {
        "versions": {name: found for name in PACKAGES if (found := version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": _git(),
        "device": device(),
        "command": [sys.executable, *sys.orig_argv[1:]],
    }


def device() -> dict[str, Any]:
    """Kind and number of the devices JAX uses."""
    devices = jax.devices()
    return {
        "platform": devices[0].platform,
        "kind": devices[0].device_kind,
        "count": len(devices),
        "host_cpus": usable_cores(),
    }


def peak_host_bytes() -> int:
    """Largest resident memory of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_device_bytes() -> int | None:
    """Largest memory in use on the first device, where its backend reports it."""
    return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def free_bytes(devices: Iterable[jax.Device]) -> int:
    """Memory that a new program on these devices can take.

    The total of the devices, or that of the host if the devices report none.
    """
    stats = [device.memory_stats() or {} for device in devices]
    if all("bytes_limit" in s for s in stats):
        return sum(s["bytes_limit"] - s.get("bytes_in_use", 0) for s in stats)
    return int(psutil.virtual_memory().available)


def keep_compiled_programs() -> None:
    """Turns on JAX's persistent compilation cache, so that a resumed run starts at once.

    The cache is in the user's cache folder, or in JAX_COMPILATION_CACHE_DIR. Its folder is named
    after the processor's features, so machine code of another processor is never loaded. Without a
    folder that can be written, every process compiles its programs.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        # Nobody's folder is known of a user without an account.
        with contextlib.suppress(OSError, RuntimeError):
            root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            folder = root / "re3_jax" / "xla" / _processor()
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def kept_programs() -> tuple[Path, int] | None:
    """Folder of the compiled programs, and their bytes; None where none are kept."""
    if not (folder := jax.config.jax_compilation_cache_dir):  # type: ignore[attr-defined]
        return None
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return Path(folder), sum(file.stat().st_size for file in files)


def use_cpu_devices(count: int) -> None:
    """Splits the CPU into `count` devices, which share XLA's threads.

    One device lets a single large operation, such as an update from pixels, use every core.
    Does nothing if XLA_FLAGS sets the number of devices, if an accelerator does the work, or if
    the process has used JAX before.

    Raises:
      UsageError: they would be more than `MOST_CPU_DEVICES`.
    """
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", min(count, MOST_CPU_DEVICES))
        if count > MOST_CPU_DEVICES and not has_accelerator():
            raise UsageError(
                f"this process would divide the CPU into {count} devices, one for each seed from "
                f"pixels and each shard of a seed, and {MOST_CPU_DEVICES} are the most: lower "
                "--seeds, or the option that ends in -shards"
            )


def has_accelerator() -> bool:
    """Whether JAX sees a GPU or TPU."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    if not plugins and not any(map(importlib.util.find_spec, ("jax_plugins", "libtpu"))):
        return False
    found: bool = jax.default_backend() != "cpu"
    if not found:
        # The number of CPU devices is chosen later, which JAX refuses once it has any.
        jax.extend.backend.clear_backends()
    return found


def devices() -> list[jax.Device]:
    """This process's devices; a UsageError if JAX has none, or 64-bit types as its default."""
    if jax.config.read("jax_enable_x64"):
        raise UsageError(
            "runs compute in 32 bits, and JAX's default here is 64: unset JAX_ENABLE_X64, or set "
            'jax.config.update("jax_enable_x64", False)'
        )
    with refusing_backends():
        return jax.local_devices()


@contextlib.contextmanager
def refusing_backends() -> Iterator[None]:
    """Turns what JAX raises without a backend into a `UsageError`."""
    try:
        yield
    # JAX asserts that it has one where JAX_PLATFORMS names only platforms that are not here.
    except (ImportError, RuntimeError, AssertionError) as error:
        said = " ".join(str(error).split()) or "no platform of JAX_PLATFORMS is here"
        raise UsageError(
            f"JAX does not work here ({said}): reinstall it with {installing.remedy()}, or set "
            "JAX_PLATFORMS=cpu to do without the accelerator"
        ) from None


def usable_cores() -> int:
    """CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        features = platform.processor()
    return hashlib.sha256(features.encode()).hexdigest()[:12]


def _git() -> dict[str, Any] | None:
    """Commit of this checkout and whether it was changed; None outside a checkout."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
