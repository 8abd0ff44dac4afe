"""The run folder: who may write into it, and what config.json says about it."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments import machine, plugins
from experiments.config import (
    NOT_COMPARED_ON_RESUME,
    RunConfig,
    flatten,
    from_dict,
    option_name,
)
from experiments.errors import UsageError
from experiments.validate import validate_values

CONFIG = "config.json"
CHECKPOINTS = "checkpoints"
RUNS = Path("runs")

DIGESTS = {"pretrained.weights": "bonus_weights_sha256", "plugin": "plugin_sha256"}
"""Option that names a file -> key in config.json of the file's digest."""

COMPARED_ON_RESUME = {
    "device": {"platform": "platform", "kind": "device", "count": "devices"},
    "versions": {"jax": "jax", "jaxlib": "jaxlib"},
}
"""What `machine.describe` tells that can change the bits of a result, and what to call it."""


def default_folder(config: RunConfig) -> Path:
    """`runs/TASK-AGENT-BONUS-YYYYmmdd-HHMMSS`, numbered if that exists."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = RUNS / f"{_prefix(config.env, config.agent, config.bonus)}{stamp}"
    number = 2
    while folder.exists():
        folder = RUNS / f"{_prefix(config.env, config.agent, config.bonus)}{stamp}-{number}"
        number += 1
    return folder


def newest(env: str | None, agent: str | None, bonus: str | None) -> Path:
    """The run that `--resume` without `--out` means: the newest under runs/ that matches.

    Raises:
      UsageError: there is none.
    """
    wanted = {"env": env, "agent": agent, "bonus": bonus}
    found = []
    for path in RUNS.glob(f"*/{CONFIG}"):
        # Not `stored_config`: the plugins of other runs are not imported.
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            stored = json.loads(path.read_text())["config"]
            if all(value in (None, stored[name]) for name, value in wanted.items()):
                found.append((path.stat().st_mtime, path.parent))
    if not found:
        raise UsageError(
            f"there is no run of this kind under {RUNS}/ to resume: "
            "name its folder with --out, or leave --resume out to start one"
        )
    return max(found)[1]


def stored_config(
    folder: Path,
    otherwise: str = "leave --resume out to start one there, or name another folder with --out",
) -> RunConfig:
    """The configuration in a run folder; `otherwise` is the remedy where there is none.

    Raises:
      UsageError: there is none, or it cannot be read.
    """
    path = folder / CONFIG
    try:
        stored = json.loads(path.read_text())["config"]
        if isinstance(stored, dict):
            plugins.load(stored.get("plugin"))
        config: RunConfig = from_dict(stored)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{folder} holds no run (no {CONFIG}): {otherwise}") from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"{path} cannot be read as the configuration of a run of this version "
            f"({type(error).__name__}: {error}): start anew with another --out"
        ) from None
    try:
        validate_values(flatten(config))
    except UsageError as error:
        raise UsageError(f"{path} says what cannot be run: {error}") from None
    return config


def claim(config: RunConfig) -> Path:
    """Makes the folder of a new run, or checks the folder of one that goes on.

    Raises:
      UsageError: the folder is not ours to write, or the run there is another one.
    """
    folder = Path(config.out) if config.out else default_folder(config)
    if config.resume:
        _check_same(config, stored_config(folder), folder)
        _check_files(config, folder)
        if has_rows(folder) and not has_checkpoint(folder):
            raise UsageError(
                f"{folder} has no checkpoint to resume from: "
                "leave --resume out and start anew with another --out"
            )
        _check_writable(folder)
        return folder
    try:
        inside = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        inside = []
    except OSError as error:
        if folder.is_file():
            raise UsageError(f"--out {folder} is a file: choose another --out") from None
        raise _unwritable(folder, error) from None
    if CONFIG in inside:
        raise UsageError(
            f"--out {folder} already holds a run: add --resume to go on with it, "
            "or choose another --out"
        )
    if inside:
        raise UsageError(
            f"--out {folder} holds files that are not of a run ({', '.join(inside[:3])}"
            f"{', ...' if len(inside) > 3 else ''}): choose a new or empty folder"
        )
    _check_writable(folder)
    write_config(folder, config)
    return folder


def write_config(folder: Path, config: RunConfig) -> None:
    """Writes config.json: the resolved configuration and what it runs on.

    Each process that goes on with the run adds what it runs on under `resumed`.
    """
    path = folder / CONFIG
    values = dataclasses.asdict(dataclasses.replace(config, out=str(folder), resume=False))
    if config.resume:
        stored = json.loads(path.read_text())
        stored["config"] = values
        stored.setdefault("resumed", []).append(machine.describe())
    else:
        stored = {"config": values, **machine.describe()}
        for option, path_of_file in _files(config).items():
            stored[DIGESTS[option]] = _sha256(path_of_file)
    write_json(path, stored)


def changes_since_start(folder: Path) -> list[str]:
    """What this process runs on other than the run's first, as `name THEN -> NOW`.

    Only what can change the bits of a result; nothing where config.json does not say.
    """
    stored = json.loads((folder / CONFIG).read_text())
    now = machine.describe()
    changes = []
    for part, names in COMPARED_ON_RESUME.items():
        then = stored.get(part)
        if isinstance(then, dict):
            changes += [
                f"{label} {then[name]} -> {now[part][name]}"
                for name, label in names.items()
                if name in then and then[name] != now[part][name]
            ]
    return changes


def has_rows(folder: Path) -> bool:
    """Whether anything was recorded in the folder."""
    tables = [folder / "train.csv", folder / "eval.csv"]
    return any(table.exists() and table.stat().st_size > 0 for table in tables)


def has_checkpoint(folder: Path) -> bool:
    """Whether there is anything to resume from."""
    return any((folder / CHECKPOINTS).glob("[0-9]*"))


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Replaces `path` in one step, so that it is never half written."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(values, indent=2) + "\n")
    partial.replace(path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps a second process out of the folder; released when this one ends, however.

    Raises:
      UsageError: another process is running in it.
    """
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another process is running in {folder}: wait for it or choose another --out"
            ) from None
        yield


def _check_same(config: RunConfig, stored: RunConfig, folder: Path) -> None:
    now, then = flatten(config), flatten(stored)
    for name in then:
        # As long as it is pre-training, it may be for longer.
        if name == "pretrain" and None not in (now[name], then[name]):
            continue
        if name not in NOT_COMPARED_ON_RESUME and now[name] != then[name]:
            raise UsageError(
                f"{option_name(name)} is {now[name]}, but the run in {folder} was started with "
                f"{then[name]}: leave it out to go on, or start anew with another --out"
            )
    if config.steps < stored.steps:
        length = "--steps" if config.pretrain is None else "--pretrain"
        raise UsageError(
            f"{length} {config.steps} is less than the {stored.steps} of the run in {folder}: "
            "give as many to finish it or more to extend it"
        )


def _check_files(config: RunConfig, folder: Path) -> None:
    """A file may have been changed under its name: the run would go on as another one."""
    stored = json.loads((folder / CONFIG).read_text())
    for option, path in _files(config).items():
        now = _sha256(path)
        if now != stored.get(DIGESTS[option], now):
            raise UsageError(
                f"{option_name(option)} {path} is not the file that the run in {folder} was "
                "started with: put that one back to go on, or start anew with another --out"
            )


def _files(config: RunConfig) -> dict[str, str]:
    """Options that name a file, and the file."""
    values = flatten(config)
    return {option: values[option] for option in DIGESTS if values[option] is not None}


def _sha256(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(
            f"--bonus.weights {path} cannot be read ({os.strerror(error.errno or 0)}): "
            "name the file of the encoder's weights"
        ) from None


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"--out {folder} cannot be written ({os.strerror(error.errno or 0)}): "
        "choose a folder that can"
    )


def _prefix(env: str, agent: str, bonus: str) -> str:
    return f"{env.replace(':', '_').replace('/', '_')}-{agent}-{bonus}-"
