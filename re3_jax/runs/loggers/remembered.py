"""What a run folder remembers of a record that is kept elsewhere."""

from collections.abc import Callable
from pathlib import Path

from re3_jax.training.whole_file import replacing


def remembered(path: Path, begin: Callable[[], str]) -> str:
    """The word in a file; where there is none, that of `begin`, which is written in one step."""
    if path.is_file() and (known := path.read_text().strip()):
        return known
    word = begin()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(f"{word}\n")
    return word
