"""`--plugin PATH`: a user's file that registers an agent, a bonus or a suite (io)."""

import ast
import contextlib
import hashlib
import importlib.util
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

from re3_jax.envs import registry
from re3_jax.runs import suites
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.config import OF_SUITES
from re3_jax.runs.errors import UsageError

_loaded: dict[Path, str] = {}
"""File -> its `digest` when it was imported."""


def named_in(words: Sequence[str], option: str = "--plugin") -> str | None:
    """The value of an option among the words of a command line; a UsageError if it has several."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, nargs="?", action="append", dest="values")
    found = parser.parse_known_args(words)[0].values or [None]
    if option == "--plugin" and len(found) > 1:
        raise UsageError(
            f"--plugin is given {len(found)} times: name one file, which may import others of its "
            "folder"
        )
    return found[-1]


def add_option(parser: ArgumentParser) -> None:
    """Adds `--plugin` to a command that opens a run, for `run_folder.load_plugin`."""
    words = "of the run, if it is not where it was as the run was trained"
    parser.add_argument("--plugin", type=Path, metavar="FILE", help=words)


def load(path: str | None, sha256: str | None = None) -> None:
    """Imports a plugin once per process; a UsageError if the file is missing or fails.

    It may import other files of its folder. A file with the digest `sha256` that was imported
    already, from wherever, is this plugin. One that has changed since it was imported is refused:
    what it registered then is still in use.
    """
    if path is None or is_loaded(sha256):
        return
    file = Path(path).resolve()
    if file in _loaded:
        refuse_changed(path)
        return
    if not file.is_file():
        raise UsageError(f"--plugin {path} is not a file: name a Python file")
    if file.suffix != ".py":
        raise UsageError(f"--plugin {path} is not a Python file: name one that ends in .py")
    name = f"re3_jax_plugin_{file.stem}"
    loader = _SourceAlone(name, str(file))
    spec = ModuleSpec(name, loader, origin=str(file))
    spec.has_location = True
    module, now = importlib.util.module_from_spec(spec), digest(file)
    # tyro looks here for the source of a dataclass.
    sys.modules[name] = module
    if str(file.parent) not in sys.path:
        # Last: a file beside it must not hide a package that is installed.
        sys.path.append(str(file.parent))
    with _whole_or_not_at_all(file):
        try:
            loader.exec_module(module)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"--plugin {path} imports {error.name}, which is not installed in this "
                "environment: install it, or mend the import"
            ) from error
        # A user's file may raise anything, and exit.
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"--plugin {path} cannot be imported ({type(error).__name__}: {error}): fix the "
                "file"
            ) from error
        _refuse_others(path, file)
    _loaded[file] = now


class _SourceAlone(SourceFileLoader):
    """Compiles a file anew each time.

    Python's bytecode knows its source by size and second alone, which a file that was mended at
    once may share with the one that failed.
    """

    def path_stats(self, path: str | bytes) -> Mapping[str, Any]:
        """None: then bytecode is neither read nor written."""
        raise OSError


@contextlib.contextmanager
def _whole_or_not_at_all(file: Path) -> Iterator[None]:
    """Takes back what a file registered and imported from its folder if the block fails.

    Once it is mended, the same process can import it.
    """
    tables: list[dict[str, Any]] = [AGENTS, BONUSES, suites.SUITES, registry.SUITES, OF_SUITES]
    entries, modules = [dict(table) for table in tables], {*sys.modules}
    try:
        yield
    except BaseException:
        for table, before in zip(tables, entries, strict=True):
            table.clear()
            table.update(before)
        own = {file, *_imported(file)}
        for name in {*sys.modules} - modules:
            place = getattr(sys.modules[name], "__file__", None)
            if place is not None and Path(place).resolve() in own:
                del sys.modules[name]
        raise


def refuse_changed(path: str | None) -> None:
    """Refuses a plugin that has changed since this process imported it: the old one is in use."""
    if path is None:
        return
    try:
        now = digest(path)
    except OSError:
        # What needs the file says so.
        return
    if not is_loaded(now):
        raise UsageError(
            f"--plugin {path} has changed since this process imported it: put it back as it was to "
            "save or begin runs with it, or start a new process, such as the kernel of a notebook "
            "again, for the changed file"
        )


def _refuse_others(path: str, file: Path) -> None:
    """Refuses a plugin that got another module than the file beside it, which its digest is of."""
    for one in _imported(file):
        parts = one.relative_to(file.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found = getattr(sys.modules.get(name), "__file__", None)
        if found is not None and Path(found).resolve() != one:
            raise UsageError(
                f"--plugin {path} imports {name}, which is {found} in this process and not the "
                "file beside it: give that file another name"
            )


def is_loaded(sha256: str | None) -> bool:
    """Whether a plugin of this digest was imported."""
    return sha256 in _loaded.values()


def is_of(path: str | Path, sha256: str | None) -> bool:
    """Whether a file is the plugin of a recorded digest.

    Earlier versions recorded that of the file alone.

    Raises:
      OSError: it cannot be read.
    """
    return sha256 in (digest(path), _sha256(Path(path)))


def digest(path: str | Path) -> str:
    """SHA-256 of a plugin: its file, and whatever it imports from its folder, in any order.

    A plugin that imports nothing from there has the digest of its file.

    Raises:
      OSError: a file cannot be read.
    """
    file = Path(path).resolve()
    folder, own = file.parent, _sha256(file)
    others = sorted((one.relative_to(folder).as_posix(), _sha256(one)) for one in _imported(file))
    if not others:
        return own
    return hashlib.sha256(repr((own, others)).encode()).hexdigest()


def _imported(file: Path) -> set[Path]:
    """The files of the folder that a file imports, and those that they import."""
    found, left = {file}, [file]
    while left:
        new = set(_imported_by(left.pop(), file.parent)) - found
        found |= new
        left += new
    return found - {file}


def _imported_by(file: Path, folder: Path) -> Iterator[Path]:
    try:
        nodes = [*ast.walk(ast.parse(file.read_bytes()))]
    except (SyntaxError, ValueError):
        # Importing it says what is wrong.
        return
    package = file.relative_to(folder).parent.parts
    names: list[tuple[str, ...]] = [
        (alias.name,) for node in nodes if isinstance(node, ast.Import) for alias in node.names
    ]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            parents = package[: len(package) + 1 - node.level] if node.level else ()
            module = (*parents, *filter(None, [node.module]))
            names += [(*module, alias.name) for alias in node.names]
    for name in names:
        parts = ".".join(name).split(".")
        # Of a package its __init__.py is imported, too.
        for length in range(1, len(parts) + 1):
            place = folder.joinpath(*parts[:length])
            for path in (place.with_suffix(".py"), place / "__init__.py"):
                if path.is_file() and parts[0] not in (*sys.stdlib_module_names, "re3_jax"):
                    yield path


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
