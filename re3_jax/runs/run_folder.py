"""The run folder: what is in it, and what config.json says about it."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from re3_jax.runs import checkpoint_path, given_files, lock, loggers, machine, plugins
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.bonuses import BONUSES, PLUS
from re3_jax.runs.config import RunConfig, flatten, from_dict, is_compared
from re3_jax.runs.errors import UsageError
from re3_jax.runs.given_files import DIGESTS
from re3_jax.runs.option_names import option_name
from re3_jax.runs.validate import validate
from re3_jax.training.whole_file import part_of, replacing

CONFIG = "config.json"
CHECKPOINTS = "checkpoints"
RUNS = Path("runs")
NO_RUNS = "drawn", "figures", "gpu", "compare", "report.html"
"""What figures and other commands put there by default."""

PROFILE = "profile-"
"""Begins the names of the folders of `make profile`."""

CONFIG_DIGEST = "config_sha256"
"""Key in config.json of the digest of its `config`."""

COMPARED_ON_RESUME = {
    "device": {"platform": "platform", "kind": "device", "count": "devices"},
    "versions": {"jax": "jax", "jaxlib": "jaxlib"},
}
"""Values of `machine.describe` that can change the bits of a result, and their labels."""


def default_folder(config: RunConfig, before: str = "") -> Path:
    """`runs/TASK-AGENT-BONUS-YYYYmmdd-HHMMSS`, numbered if it exists; `before` is a prefix."""
    task = before + config.env.replace(":", "_").replace("/", "_")
    name = f"{task}-{config.agent}-{config.bonus}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(folder for folder in map(RUNS.joinpath, names) if not folder.exists())


def newest(wanted: dict[str, str]) -> Path:
    """The run that `--resume` without `--out` means: the newest in runs/ with these options."""
    found = []
    for path in RUNS.glob(f"*/{CONFIG}"):
        # Not `stored_config`: the plugins of other runs are not imported.
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            stored = json.loads(path.read_text())["config"]
            if all(stored[name] == value for name, value in wanted.items()):
                found.append((path.stat().st_mtime, path.parent))
    if not found:
        raise UsageError(
            f"there is no run of this kind under {RUNS}/ to resume: "
            "name its folder with --out, or leave --resume out to start one"
        )
    return max(found)[1]


START_ONE = "leave --resume out to start one there, or name another folder with --out"
"""The remedy where there is no run to resume."""


def _whole(path: Path) -> Any:
    """The contents of config.json; a UsageError if its options are not those that a run wrote."""
    whole = json.loads(path.read_text())
    digest = _sha256(whole["config"])
    if whole.get(CONFIG_DIGEST, digest) != digest:
        raise UsageError(f"{path} was changed after the run wrote it: restore it from a copy")
    return whole


def stored_config(folder: Path, otherwise: str) -> RunConfig:
    """The configuration in a run folder; `otherwise` is the remedy if there is none."""
    path = folder / CONFIG
    try:
        whole = _whole(path)
        stored = whole["config"]
        if isinstance(stored, dict):
            _load_plugin(stored, whole.get(DIGESTS["plugin"]), folder)
        config: RunConfig = from_dict(_of_this_version(stored))
    except UsageError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{folder} holds no run (no {CONFIG}): {otherwise}") from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"{path} cannot be read as the configuration of a run of this version "
            f"({type(error).__name__}: {error}): start a new run with another --out"
        ) from None
    try:
        validate(config)
    except UsageError as error:
        raise UsageError(f"{path} holds a configuration that cannot run: {error}") from None
    return config


def load_plugin(folder: Path, moved_to: Path | None = None) -> None:
    """Imports the plugin of the run in a folder, if it names one; `stored_config` says what fails.

    Args:
      folder: of the run.
      moved_to: where its plugin is now; by default where it was.

    Raises:
      UsageError: the file is not what it was when the run began.
    """
    try:
        whole = json.loads((folder / CONFIG).read_text())
        stored, sha256 = dict(whole["config"]), whole.get(DIGESTS["plugin"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return
    if moved_to is not None:
        if moved_to.is_file() and sha256 and not plugins.is_of(moved_to, sha256):
            raise UsageError(
                f"--plugin {moved_to} is not the file that the run in {folder} was trained with: "
                "name that one"
            )
        plugins.load(str(moved_to))
    _load_plugin(stored, sha256, folder)


def _load_plugin(stored: dict[str, Any], sha256: str | None, folder: Path) -> None:
    """Imports the plugin of a stored configuration, and refuses what nothing registers."""
    path = stored.get("plugin")
    if path and sha256 and not plugins.is_loaded(sha256):
        if not Path(path).is_file():
            raise UsageError(
                f"{folder} was trained with the plugin {path}, which is not there, and no file of "
                "its contents was named: put it there again, or name it with --plugin FILE (in "
                "Python plugin=FILE)"
            )
        if not plugins.is_of(path, sha256):
            raise given_files.not_the_file("plugin", path, folder)
    plugins.load(path, sha256)
    for kind, known in (("agent", AGENTS), ("bonus", BONUSES)):
        name = stored.get(kind)
        names = name.split(PLUS) if isinstance(name, str) else ()
        if path is None and (unknown := [one for one in names if one not in known]):
            raise UsageError(
                f"{folder} was trained with the {kind} {unknown[0]}, which nothing here registers: "
                "resume it with --plugin FILE, or register it before re3_jax.load"
            )


def config_with(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """All options of the run in a folder; a UsageError if there is no run with these options."""
    try:
        config = _of_this_version(_whole(folder / CONFIG)["config"])
        return {**config, **{name: config[name] for name in names}}
    except UsageError:
        raise
    except (OSError, ValueError, LookupError, TypeError):
        raise UsageError(f"{folder} holds no run: give folders with a config.json") from None


def digests_of(folder: Path) -> dict[str, str]:
    """Option that names a file -> the file's digest as the run in a folder recorded it."""
    written = _written(folder)
    return {option: written[key] for option, key in DIGESTS.items() if written.get(key)}


def _of_this_version(stored: Any) -> Any:
    """A stored configuration; before there was `loggers`, TensorBoard was a switch."""
    if not isinstance(stored, dict) or "tensorboard" not in stored:
        return stored
    renamed = {name: value for name, value in stored.items() if name != "tensorboard"}
    return {**renamed, "loggers": "tensorboard" if stored["tensorboard"] else loggers.NONE}


def claim(config: RunConfig) -> Path:
    """Makes the folder of a new run, or checks the folder of a resumed one.

    Raises:
      UsageError: the folder cannot be written, or it holds another run, or a file that an option
        names cannot be read, or the plugin has changed since it was imported, or the package of a
        logger is missing.
    """
    loggers.check_installed(config)
    folder = Path(config.out) if config.out else default_folder(config)
    checkpoint_path.check(folder)
    if config.resume:
        _check_same(config, stored_config(folder, START_ONE), folder)
        check_files(config, folder)
        began = any(path.stat().st_size > 0 for path in folder.glob("*.csv"))
        if began and not has_checkpoint(folder):
            raise UsageError(
                f"{folder} has no checkpoint to resume from: "
                "leave --resume out and start a new run with another --out"
            )
        _make_writable(folder)
        return folder
    _refuse_a_run(folder)
    plugins.refuse_changed(config.plugin)
    # Before the folder is made, which it would leave without a run.
    given_files.digests(config)
    if not str(folder).isprintable():
        # A byte that is not UTF-8, above all, which checkpoints cannot have in their path.
        raise UsageError(f"--out {ascii(str(folder))} cannot be shown: choose another name")
    make_empty(folder, own=(lock.NAME,))
    with lock.held(folder):
        # Another process may have begun one since.
        _refuse_a_run(folder)
        write_config(folder, config)
    return folder


def _refuse_a_run(folder: Path) -> None:
    if os.path.exists(folder / CONFIG):
        raise UsageError(
            f"--out {folder} already holds a run: add --resume to continue it, "
            "or choose another --out"
        )


def make_empty(folder: Path, own: Collection[str] = (), what: str = "a run") -> None:
    """Makes a folder, or accepts one with nothing but files of `what` by the names `own`.

    Raises:
      UsageError: other files are in it, or it cannot be written.
    """
    # What was killed as it wrote a file leaves the one that was to become it.
    own = {*own, *(part_of(folder / name).name for name in (*own, CONFIG))}
    if inside := [name for name in _make_writable(folder) if name not in own]:
        raise UsageError(
            f"--out {folder} holds files that are not of {what} ({', '.join(inside[:3])}"
            f"{', ...' if len(inside) > 3 else ''}): choose a new or empty folder"
        )


def write_config(folder: Path, config: RunConfig) -> None:
    """Writes config.json: the resolved configuration and what it runs on.

    Each process that resumes the run adds what it runs on under `resumed`.
    """
    path = folder / CONFIG
    values = dataclasses.asdict(dataclasses.replace(config, out=str(folder), resume=False))
    if config.resume:
        stored = _written(folder)
        stored["config"] = values
        stored.setdefault("resumed", []).append(machine.describe())
    else:
        stored = {"config": values, **machine.describe()}
    for option, digest in given_files.digests(config).items():
        stored.setdefault(DIGESTS[option], digest)
    stored[CONFIG_DIGEST] = _sha256(stored["config"])
    write_json(path, stored)


def changes_since_start(folder: Path) -> list[str]:
    """How this process's machine differs from that of the run's first, as `name THEN -> NOW`.

    Only what can change the bits of a result; nothing that config.json does not record.
    """
    stored, now = _written(folder), machine.describe()
    return [
        f"{label} {stored[part][name]} -> {now[part][name]}"
        for part, names in COMPARED_ON_RESUME.items()
        for name, label in names.items()
        if name in stored.get(part, ()) and stored[part][name] != now[part][name]
    ]


def has_checkpoint(folder: Path) -> bool:
    """Whether a run folder has a checkpoint; a UsageError if none can be read from its path."""
    checkpoint_path.check(folder)
    return bool(_checkpoints(folder))


def of_runs(named: Iterable[Path], out: Path) -> list[Path]:
    """What `RUNS="runs/*"` names, without `out` and what commands put there beside runs.

    A run counts whatever its name.
    """
    others = {out.resolve(), *((RUNS / name).resolve() for name in NO_RUNS)}
    runs = RUNS.resolve()
    return [
        path
        for path in named
        if (path / CONFIG).is_file()
        or not (
            (whole := path.resolve()) in others
            or (whole.parent == runs and whole.name.startswith(PROFILE))
        )
    ]


def newest_checkpoint(folder: Path) -> int:
    """Number of the newest checkpoint in a run folder that has one."""
    return max(_checkpoints(folder))


def _checkpoints(folder: Path) -> list[int]:
    """Numbers of whole checkpoints: names of half written ones begin with a number, too."""
    names = [path.name for path in (folder / CHECKPOINTS).glob("[0-9]*")]
    return [int(name) for name in names if name.isdecimal()]


def newest_video(folders: Iterable[Path]) -> Path | None:
    """The newest whole video in some run folders; None if they have none."""
    # Names of half written ones begin with a dot.
    found = [path for folder in folders for path in folder.glob("[!.]*.mp4") if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def write_json(path: Path, values: Any) -> None:
    """Replaces `path` in one step, so that it is never half written."""
    with replacing(path) as part:
        part.write_text(json.dumps(values, indent=2) + "\n")


def without_nan(values: Any) -> Any:
    """Results for a JSON file, which has no word for NaN and infinity: null in their place."""
    if isinstance(values, dict):
        return {name: without_nan(value) for name, value in values.items()}
    if isinstance(values, list):
        return [without_nan(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def _check_same(config: RunConfig, stored: RunConfig, folder: Path) -> None:
    now, then = flatten(config), flatten(stored)
    for name in then:
        # A pre-training run may be extended.
        if name == "pretrain" and None not in (now[name], then[name]):
            continue
        # Of a file its contents count, which `check_files` compares.
        if name in DIGESTS and None not in (now[name], then[name]):
            continue
        # What the run's own program registered may come from a file now.
        if name == "plugin" and then[name] is None:
            continue
        if is_compared(name) and now[name] != then[name]:
            raise UsageError(
                f"{option_name(name)} is {now[name]}, but the run in {folder} was started with "
                f"{then[name]}: leave it out to continue, or start a new run with another --out"
            )
    refuse_shorter(config, stored, f"the run in {folder}")


def refuse_shorter(config: RunConfig, stored: RunConfig, which: str) -> None:
    """Refuses to shorten a run, `which` in words: `stored` says how long it is."""
    if config.steps < stored.steps:
        length = option_name(config.length)
        raise UsageError(
            f"{length} {config.steps} is less than the {stored.steps} of {which}: "
            "give as many to finish it or more to extend it"
        )


def check_files(config: RunConfig, folder: Path, options: Collection[str] = tuple(DIGESTS)) -> None:
    """Refuses files whose contents changed: the resumed run would be another one.

    `options` are those to look at; of a run that is only read, `stored_config` has loaded the
    plugin, from wherever it is.
    """
    if (option := given_files.changed(config, _written(folder), options)) is not None:
        raise given_files.not_the_file(option, flatten(config)[option], folder)


def has_the_file(option: str, config: RunConfig, folder: Path) -> bool:
    """Whether an option names the file, wherever it is, that the run in a folder began with."""
    return given_files.changed(config, _written(folder), [option]) is None


def _written(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / CONFIG).read_text()))


def _sha256(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _make_writable(folder: Path) -> list[str]:
    """Makes a folder where there is none, and returns the names of what is in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        return sorted(path.name for path in folder.iterdir())
    except OSError as error:
        if os.path.isfile(folder):
            raise UsageError(f"--out {folder} is a file: choose another --out") from None
        raise UsageError(
            f"--out {folder} cannot be written ({os.strerror(error.errno or 0)}): "
            "choose a folder that can"
        ) from None
