"""Installs the packages of a large suite when a task of it is first named (io).

`make` sets `RE3_JAX_VENV` to the environment that it builds. Only there are packages installed
automatically; elsewhere a missing package is one sentence with the command that installs it.
"""

import fcntl
import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from re3_jax.runs.errors import UsageError

ROOT = Path(__file__).parents[2]

BASE = "requirements.txt"
ATARI = "requirements-atari.txt"

EXTRAS = {
    BASE: "run,gymnax,dmc,brax,video,weights",
    ATARI: "envpool",
    "requirements-compile-cuda.txt": "cuda",
    "requirements-compile-tpu.txt": "tpu",
}
"""Lock -> the extras of the package that it pins, for an installed wheel, which has no locks."""

PACKAGES = (
    *("jax", "jaxlib", "numpy", "optax", "flax", "orbax-checkpoint", "tyro"),
    *("gymnax", "brax", "dm_control", "mujoco", "mujoco-mjx", "warp-lang", "envpool"),
)
"""Packages whose versions config.json and `make doctor` give."""


def version(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def required() -> list[str]:
    """The packages that every run needs; of the lock, others are for some tasks or files."""
    if in_checkout():
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        needed = [*project["dependencies"], *project["optional-dependencies"]["run"]]
    else:
        wanted = metadata.requires("re3_jax") or []
        of_run = re.compile(r"extra == .run.$")
        needed = [one for one in wanted if "extra ==" not in one or of_run.search(one)]
    return [re.split(r"[^\w.-]", one)[0] for one in needed]


def in_checkout() -> bool:
    """Whether this is the repository; an installed package has neither locks nor make."""
    return (ROOT / BASE).is_file()


def python() -> str:
    """This interpreter as a command, relative to the working directory if it is below it."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def resuming(folder: Path) -> str:
    """The command that continues the run in a folder, to be pasted into a shell."""
    words = [python(), "-m", "re3_jax.commands.train", "--out", str(folder), "--resume"]
    return shlex.join(words)


def filming(folder: Path, file: Path) -> str:
    """The command that plays an episode of a run and writes its video, likewise."""
    words = [python(), "-m", "re3_jax.commands.evaluate", "--run", str(folder)]
    return shlex.join([*words, "--video", str(file)])


def example(name: str, variable: str, given: str) -> str:
    """A command as its user types it: `make watch RUN=runs/a`, or `re3-jax watch runs/a`."""
    if not in_checkout():
        return f"re3-jax {name} {given}"
    return (
        f'make {name} {variable}="{given}"' if " " in given else f"make {name} {variable}={given}"
    )


def remedy(lock: str = BASE, extras: str | None = None) -> str:
    """The command that installs a lock, or extras, into the environment of this process.

    Args:
      lock: what a checkout installs.
      extras: what an installed wheel, which has no locks, installs; by default all that the lock
        pins.
    """
    if not in_checkout() and lock in EXTRAS:
        extras = extras or EXTRAS[lock]
        command = f"{python()} -m pip install 're3_jax[{extras}]'"
        if "dmc" in extras and sys.version_info >= (3, 13):
            # pip cannot install labmaze there, which dm_control asks for (see pyproject.toml).
            command += f" && {python()} -m pip install --no-deps dm_control==1.0.50"
        return command
    path = Path(lock) if Path.cwd() == ROOT else ROOT / lock
    return f"{python()} -m pip install --no-deps -r {path}"


def ensure_envpool() -> None:
    """Installs missing envpool (0.7 GB) if make built the environment; otherwise refuses."""
    if importlib.util.find_spec("envpool") is not None:
        return
    venv = os.environ.get("RE3_JAX_VENV")
    if venv is None or Path(venv).resolve() != Path(sys.prefix).resolve():
        raise UsageError(f"envpool is not installed: {remedy(ATARI)}")
    print(f"installing {ATARI} into {Path(sys.prefix).name} (once, 0.7 GB)", file=sys.stderr)
    # Runs that start together, such as a figure's, must not install at the same time.
    with open(Path(sys.prefix) / ".installing", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        importlib.invalidate_caches()
        if importlib.util.find_spec("envpool") is not None:
            return
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        options = ["--no-compile", "--no-deps", "-r", str(ROOT / ATARI)]
        done = subprocess.run([*pip, *options], capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise UsageError(f"{ATARI} cannot be installed ({said}): try again with {remedy(ATARI)}")
    importlib.invalidate_caches()
