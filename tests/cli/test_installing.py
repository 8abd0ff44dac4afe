"""A large suite is installed when it is first named, but only in make's environment."""

import re
import shlex
import subprocess
import sys
import tomllib
from functools import partial
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from re3_jax.commands import compare, doctor, look, report, train, watch
from re3_jax.runs import installing
from re3_jax.runs.errors import UsageError

PROJECT = tomllib.loads((installing.ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


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


def test_make_keeps_byte_code_where_the_environment_says_not_to(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    told = subprocess.run(
        ["make", "-s", "-f", "-", "told"],
        input=f"include Makefile\ntold:\n\t@{sys.executable} -c 'import sys; "
        "print(sys.dont_write_bytecode)'\n",
        cwd=installing.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "False\n"


def test_an_unknown_target_is_named_before_its_variables():
    done = subprocess.run(
        ["make", "-n", "trian", "ENV=doorkey_6x6"],
        cwd=installing.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "there is no target trian: make help lists them" in done.stderr


def test_makes_environment_finds_the_package_from_any_folder(tmp_path):
    code = "import re3_jax; print(re3_jax.__file__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == str(installing.ROOT / "re3_jax" / "__init__.py"), done.stderr


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["SEEDS=2", "JAX_PLATFORMS=cpu"], 0),
        (["SEED=3"], 2),
        (["Bonus=rnd"], 2),
    ],
)
def test_make_refuses_a_variable_that_it_does_not_know(given, code):
    done = subprocess.run(
        ["make", "-n", "run", "ENV=doorkey_6x6", *given],
        cwd=installing.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    name = given[0].partition("=")[0]
    assert (f"no variable {name}: known are ENV AGENT" in done.stderr) == (code == 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["figure", "FIG=minigrid", "SEEDS=3"], "SEEDS would have no effect on figure: leave it"),
        (["run", "ENV=doorkey_6x6", "RUN=runs/a"], "RUN would have no effect on run: leave it out"),
        (["compare", "RUN=runs/a"], "compare reads RUNS OUT ARGS"),
        (["run", "ENV=doorkey_6x6", "RESUME=no"], "RESUME=no is neither 1 nor 0: give RESUME=1"),
        (["run", "ENV=doorkey_6x6", "OUT=", "RESUME=1"], "OUT is empty: give it a value, or leave"),
        (["run", "ENV=doorkey_6x6", "VENV="], "VENV is empty: give it a value"),
        (["clean", "VENV=my env"], "VENV=my env is no single word: name a folder without spaces"),
    ],
)
def test_make_refuses_what_a_target_does_not_read(words, sentence):
    done = subprocess.run(["make", "-n", *words], cwd=installing.ROOT, capture_output=True)
    assert done.returncode == 2 and sentence in done.stderr.decode()


def test_make_deletes_no_folder_that_is_no_environment(tmp_path):
    own = tmp_path / "thesis.tex"
    own.write_text("mine")
    begin = partial(subprocess.run, cwd=installing.ROOT, capture_output=True, text=True)
    done = begin(["make", f"{tmp_path}/bin/python", f"VENV={tmp_path}", "PYTHON=false"])
    assert done.returncode == 2 and own.exists()
    done = begin(["make", f"{tmp_path}/bin/python", f"VENV={tmp_path}", f"PYTHON={sys.executable}"])
    assert done.returncode == 2 and [*tmp_path.iterdir()] == [own]
    assert "holds files that are no environment: name a new folder" in done.stderr
    (tmp_path / "pyvenv.cfg").touch()
    fails = tmp_path / "fails"
    fails.write_text('#!/bin/sh\ntest "$1" != -m\n')
    fails.chmod(0o755)
    done = begin(["make", f"{tmp_path}/bin/python", f"VENV={tmp_path}", f"PYTHON={fails}"])
    assert done.returncode == 2 and own.exists()
    lines = begin(["make", "-n", "clean", f"VENV={tmp_path}"]).stdout.splitlines()
    assert [line for line in lines if str(tmp_path) in line] == [
        f"test ! -f {tmp_path}/pyvenv.cfg || rm -rf {tmp_path}"
    ]


@pytest.mark.parametrize("target", ["h200", "h100 a100"])
def test_make_compiles_for_one_known_target(target):
    words = ["make", "compile", "ENV=doorkey_6x6", f"TARGET={target}"]
    done = subprocess.run(words, cwd=installing.ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and f"no target '{target}': give one as TARGET=" in done.stderr


@pytest.mark.parametrize("folder", ["runs/my run", "it's mine", 'a "$HOME"'])
def test_make_quotes_the_folder_of_a_run(folder):
    words = ["make", "-n", "watch", f"RUN={folder.replace('$', '$$')}"]
    done = subprocess.run(words, cwd=installing.ROOT, capture_output=True, text=True)
    assert shlex.split(done.stdout)[-2:] == ["experiments.watch", folder]


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


@pytest.mark.parametrize("version", [(3, 12), (3, 13)])
def test_a_wheel_names_extras(monkeypatch, version):
    monkeypatch.setattr(installing, "in_checkout", lambda: False)
    monkeypatch.setattr(sys, "version_info", version)
    assert installing.remedy(extras="run").endswith("-m pip install 're3_jax[run]'")
    assert installing.remedy(installing.ATARI).endswith("-m pip install 're3_jax[envpool]'")
    alone = "-m pip install --no-deps dm_control==1.0.50"
    assert (alone in installing.remedy(extras="dmc")) == (version == (3, 13))


@pytest.mark.parametrize("room", [compare, look, report, watch])
def test_an_example_is_what_the_user_types(room, monkeypatch, capsys):
    name = room.__name__.rpartition(".")[2]
    assert room.main([]) == 2
    assert f"as in make {name} RUN" in capsys.readouterr().err
    monkeypatch.setattr(installing, "in_checkout", lambda: False)
    assert room.main([]) == 2
    assert f"as in re3-jax {name} runs/a" in capsys.readouterr().err


def test_every_extra_that_a_sentence_names_exists():
    of_locks = [name for names in installing.EXTRAS.values() for name in names.split(",")]
    of_parts = [extra for _, _, extra in doctor.PARTS.values()]
    assert {*of_locks, *of_parts} <= EXTRAS.keys()


def packages_of(requirements: list[str], version: str) -> set[str]:
    """Names that a Python of this version installs."""
    wanted = [Requirement(text) for text in requirements]
    environment = {"python_version": version, "extra": ""}
    return {
        canonicalize_name(one.name)
        for one in wanted
        if one.marker is None or one.marker.evaluate(environment)
    }


def test_the_extra_for_dm_control_completes_it_on_python_3_13():
    """Against what dm_control itself asks for, in which labmaze alone cannot be installed."""
    asked = packages_of(metadata.requires("dm_control") or [], "3.13")
    # The package itself needs NumPy, and setuptools is there to build dm_control.
    assert asked - packages_of(EXTRAS["dmc"], "3.13") == {"labmaze", "numpy", "setuptools"}
    assert "dm-control" in packages_of(EXTRAS["dmc"], "3.12")


def test_a_run_without_dm_control_is_refused_before_it_has_a_folder(monkeypatch, tmp_path, capsys):
    version = metadata.version

    def without_dm_control(package):
        if package == "dm_control":
            raise metadata.PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(metadata, "version", without_dm_control)
    words = ["--env", "pendulum_swingup", "--preset", "debug", "--out", str(tmp_path / "run")]
    assert train.main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "needs dm_control and MuJoCo; install it with" in said
    assert not (tmp_path / "run").exists()


def test_make_lists_the_benchmarks():
    ready = "PY=python", "TEST_READY="
    words = ["make", "bench", "BENCH=knnn", *ready]
    done = subprocess.run(words, cwd=installing.ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search("no benchmark +'knnn': give one as BENCH=; known: .* knn ", done.stderr)
