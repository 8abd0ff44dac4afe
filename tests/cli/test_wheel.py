"""The wheel alone, without a checkout, is the whole command line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from re3_jax.commands import __main__ as command

ROOT = Path(__file__).parents[2]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def test_the_list_names_every_command(capsys):
    assert command.main([]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:1] == " "}
    folder = ROOT / "re3_jax" / "commands"
    found = {path.stem for path in folder.glob("[a-z]*.py") if "__main__" in path.read_text()}
    assert listed == found == set(command.COMMANDS)


@pytest.mark.parametrize(("name", "near"), [("trian", "did you mean train?"), ("x", "choose from")])
def test_another_command_is_one_sentence(name, near, capsys):
    assert command.main([name]) == 2
    assert near in capsys.readouterr().err


def interpreter(version: str) -> str:
    """A Python of this version; skips the test if there is none."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    found = sorted(PYENV.glob(f"{version}.*/bin/python"))
    path = str(found[-1]) if found else shutil.which(f"python{version}")
    if path is None:
        pytest.skip(f"no Python {version} here")
    return path


def finished(*words: str | Path, cwd: Path) -> str:
    """Output of a command that succeeds, with nothing of this checkout in its environment."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=cwd, env=plain, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("re3_jax", "pyproject.toml", "README.md", "LICENSE"):
        path = ROOT / name
        source.mkdir(exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, source / name)
    build = ["-m", "pip", "wheel", "-qq", "--no-deps", "-w", str(folder), str(source)]
    finished(sys.executable, *build, cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_run_from_the_installed_wheel(version, wheel, tmp_path):
    finished(interpreter(version), "-m", "venv", "venv", cwd=tmp_path)
    python, script = (tmp_path / "venv" / "bin" / name for name in ("python", "re3-jax"))
    pip = ["-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    finished(python, *pip, f"{wheel}[run]", cwd=tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    words = ["--env", "doorkey_6x6", "--preset", "debug", "--seeds", "1", "--out", "run"]
    finished(script, "train", *words, cwd=empty)
    assert json.loads((empty / "run" / "summary.json").read_text())["complete"] is True
    finished(script, "train", "--resume", "--out", "run", "--steps", "5120", cwd=empty)
    evaluated = finished(script, "evaluate", "--run", "run", "--episodes", "2", cwd=empty)
    assert json.loads(evaluated)["env_frames"] == 5120
    loaded = "import re3_jax; print(re3_jax.load('run', progress=False).curves['env_frames'][-1])"
    assert finished(python, "-c", loaded, cwd=empty) == "5120\n"
    assert finished(script, "report", "run", "--out", "report.html", cwd=empty) == "report.html\n"
    assert "run/look/latents.png" in finished(script, "look", "run", cwd=empty)
    assert "return" in finished(script, "watch", "run", cwd=empty)
    profiled = finished(script, "profile", *words[:-1], "profile", cwd=empty)
    assert "trace: profile/" in profiled
    assert "re3-jax train --env doorkey_6x6" in finished(script, "doctor", cwd=empty)
    words = ["compile", "--target", "h100", "--env", "doorkey_6x6"]
    done = subprocess.run([script, *words], cwd=empty, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.rstrip().endswith("-m pip install 're3_jax[cuda]'")
