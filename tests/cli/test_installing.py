"""A large suite is installed when it is first named, but only in make's environment."""

import subprocess
import sys

import pytest

from re3_jax.runs import installing
from re3_jax.runs.errors import UsageError


@pytest.fixture
def missing(monkeypatch, tmp_path):
    """No envpool, and an empty environment; returns the arguments of pip."""
    told = []

    def pip(command, **_):
        told.append(command)
        monkeypatch.setattr(installing.importlib.util, "find_spec", lambda name: object())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(installing.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(installing.subprocess, "run", pip)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return told


def test_make_installs_the_lock_once_and_says_so(missing, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("RE3_JAX_VENV", str(tmp_path))
    installing.ensure_envpool()
    installing.ensure_envpool()
    (command,) = missing
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert command[-2:] == ["-r", str(installing.ROOT / "requirements-atari.txt")]
    assert "--no-deps" in command
    said = capsys.readouterr().err
    assert said == f"installing requirements-atari.txt into {tmp_path.name} (once, 0.7 GB)\n"


@pytest.mark.parametrize("venv", [None, "/somewhere/else"])
def test_another_environment_is_left_alone(missing, monkeypatch, venv):
    if venv is None:
        monkeypatch.delenv("RE3_JAX_VENV", raising=False)
    else:
        monkeypatch.setenv("RE3_JAX_VENV", venv)
    with pytest.raises(UsageError, match="envpool is not installed: .* -m pip install --no-deps"):
        installing.ensure_envpool()
    assert not missing


def test_a_failure_of_pip_is_one_sentence(missing, monkeypatch, tmp_path):
    def pip(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "much\nERROR: no network\n")

    monkeypatch.setenv("RE3_JAX_VENV", str(tmp_path))
    monkeypatch.setattr(installing.subprocess, "run", pip)
    with pytest.raises(UsageError, match=r"cannot be installed \(ERROR: no network\): try again"):
        installing.ensure_envpool()


def test_the_remedy_works_from_any_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert installing.remedy().endswith(f"-r {installing.ROOT / 'requirements.txt'}")
    assert (installing.ROOT / installing.ATARI).is_file()
