"""`--plugin PATH`: a user's file that registers an agent, a bonus or a suite (io)."""

import hashlib
import importlib.util
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from re3_jax.runs.errors import UsageError

_loaded: dict[Path, str] = {}
"""File -> SHA-256 of its contents."""


def named_in(words: Sequence[str]) -> str | None:
    """The value of `--plugin` among the words of a command line."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--plugin", nargs="?")
    return parser.parse_known_args(words)[0].plugin


def load(path: str | None, sha256: str | None = None) -> None:
    """Imports a plugin once per process; a UsageError if the file is missing or fails.

    A file with the digest `sha256` that was imported already, from wherever, is this plugin. One
    that has changed since it was imported is refused: what it registered then is still in use.
    """
    if path is None or sha256 in _loaded.values():
        return
    file = Path(path).resolve()
    if file in _loaded:
        if file.is_file() and _digest(file) != _loaded[file]:
            raise UsageError(
                f"--plugin {path} has changed since this process imported it: start a new process, "
                "such as the kernel of a notebook again, or give the changed file another name and "
                "what it registers, too"
            )
        return
    if not file.is_file():
        raise UsageError(f"--plugin {path} is not a file: name a Python file")
    spec = importlib.util.spec_from_file_location(f"re3_jax_plugin_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UsageError(f"--plugin {path} is not a Python file: name one that ends in .py")
    module, digest = importlib.util.module_from_spec(spec), _digest(file)
    # tyro looks here for the source of a dataclass.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    # A user's file may raise anything, and exit.
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"--plugin {path} cannot be imported ({type(error).__name__}: {error}): fix the file"
        ) from error
    _loaded[file] = digest


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
