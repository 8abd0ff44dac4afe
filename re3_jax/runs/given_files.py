"""The files that options name, which a run knows again by their contents (io)."""

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from re3_jax.runs import plugins
from re3_jax.runs.config import RunConfig, flatten
from re3_jax.runs.errors import UsageError
from re3_jax.runs.option_names import option_name

WEIGHTS, PLUGIN = "pretrained.weights", "plugin"

DIGESTS = {WEIGHTS: "bonus_weights_sha256", PLUGIN: "plugin_sha256"}
"""Option that names a file -> key in config.json of the file's digest."""


def digests(config: RunConfig, options: Collection[str] = tuple(DIGESTS)) -> dict[str, str]:
    """Each of `options` that names a file, and the file's SHA-256.

    Raises:
      UsageError: a file cannot be read.
    """
    found, values = {}, flatten(config)
    for option in options:
        if (path := values[option]) is None:
            continue
        try:
            if option == PLUGIN:
                found[option] = plugins.digest(path)
                continue
            with Path(path).open("rb") as file:
                found[option] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(
                f"{option_name(option)} {path} cannot be read "
                f"({os.strerror(error.errno or 0)}): put the file there, or name the right one"
            ) from None
    return found


def changed(
    config: RunConfig, stored: Mapping[str, Any], options: Collection[str] = tuple(DIGESTS)
) -> str | None:
    """The first of `options` that names other contents than config.json, `stored`, knows."""
    for option, now in digests(config, options).items():
        then = stored.get(DIGESTS[option], now)
        is_same_plugin = option == PLUGIN and plugins.is_of(flatten(config)[option], then)
        if now != then and not is_same_plugin:
            return option
    return None


def not_the_file(option: str, path: str, folder: Path) -> UsageError:
    """What to say of a file that the run in a folder was not started with."""
    also = ", or another that it imports, has changed" if option == PLUGIN else ""
    return UsageError(
        f"{option_name(option)} {path} is not the file that the run in {folder} was started with"
        f"{also}: put that file back to continue, or start a new run with another --out"
    )
