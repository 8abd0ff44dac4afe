"""Folders from which orbax can read the checkpoints that it writes there."""

import re
from pathlib import Path

from re3_jax.runs.errors import UsageError

PATTERN = re.compile(r"[*?\[\\]")
"""What orbax takes for a pattern in the path of a checkpoint, which it then does not find."""


def check(folder: Path) -> None:
    """Refuses the folder of a run whose checkpoints could not be read.

    Raises:
      UsageError: its absolute path has a sign of a pattern.
    """
    path = folder.absolute()
    if found := PATTERN.search(str(path)):
        raise UsageError(
            f"{path} has a {found[0]}, with which checkpoints cannot be read: choose or rename a "
            "folder without it"
        )
