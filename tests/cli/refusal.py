"""What the tests of refused input share."""

from pathlib import Path

import pytest

from re3_jax.commands import train
from re3_jax.runs import machine

DEBUG = ("--preset", "debug")
DOORKEY = ("--env", "doorkey_6x6", *DEBUG)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """No test writes outside its folder or changes how this process uses JAX."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "keep_compiled_programs", lambda: None)


def refused(capsys, *argv) -> str:
    """The sentence that refuses `argv`."""
    before = tree(Path.cwd())
    assert train.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert tree(Path.cwd()) == before
    return err


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}
