"""`python -m experiments.doctor`: prints what it finds and, if no run can start, the remedy."""

import json
import re
import subprocess
import sys
from importlib import metadata

import pytest

from re3_jax import knn
from re3_jax.commands import doctor
from re3_jax.envs.host import gl
from re3_jax.runs import installing, machine
from re3_jax.runs.errors import UsageError
from re3_jax.runs.installing import ATARI, BASE

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """No test writes outside its folder or changes how this process uses JAX."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "keep_compiled_programs", lambda: None)


def pretend_installed(monkeypatch, versions):
    """`metadata.version` with other answers; None stands for a missing package."""
    real = metadata.version

    def version(name):
        found = versions[name] if name in versions else real(name)
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)


def test_a_machine_that_runs_the_tests_is_ready(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(doctor, "SPEED_TASK", "gymnax:CartPole-v1")
    result = {
        "benchmark": "a2c",
        "agent": "a2c",
        "task": "gymnax:CartPole-v1",
        "hardware": {"devices": {"cpu": 1}, "cpu": "made up", "cores": 2},
        "throughput": [
            {"bonus": "none", "merge_copies": False, "seeds": 1, "env_frames_per_second": 7},
            {"bonus": "re3", "merge_copies": True, "seeds": 1, "env_frames_per_second": 3},
            {"bonus": "re3", "merge_copies": False, "seeds": 1, "env_frames_per_second": 1},
        ],
    }
    monkeypatch.setattr(doctor, "RESULTS", tmp_path)
    (tmp_path / "a2c.json").write_text(json.dumps(result))
    (tmp_path / "ppo.json").write_text(json.dumps(result | {"agent": "ppo"}))
    (tmp_path / "knn.json").write_text(json.dumps({"benchmark": "knn"}))
    monkeypatch.setattr(doctor, "SPEED_SECONDS", 0.1)
    assert doctor.main([]) == 0
    printed = capsys.readouterr().out
    heads = [line.split()[0] for line in printed.splitlines()]
    expected = "python packages host devices OpenGL Atari DMC k-NN speed programs ready"
    assert set(expected.split()) <= set(heads)
    assert "env frames/s" in printed
    assert "of the 1 measured on 1 x cpu (made up, 2 cores)" in printed
    assert printed.count(" measured on ") == 1


def test_a_missing_package_is_one_sentence_with_the_remedy(monkeypatch, capsys):
    pretend_installed(monkeypatch, {"optax": None})
    assert doctor.main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: optax not installed: ")
    assert re.search("-m pip install --no-deps -r .*requirements.txt", said)
    assert said.count("\n") == 1


def test_it_starts_without_the_packages_it_checks():
    missing = "import sys; sys.modules.update(jax=None, optax=None, flax=None)"
    program = f"{missing}; import re3_jax.commands.doctor"
    subprocess.run([sys.executable, "-c", program], cwd=installing.ROOT, check=True)


def test_another_version_than_the_tested_one_is_a_warning(monkeypatch):
    pretend_installed(monkeypatch, {"optax": "9.9"})
    (warning,) = (line for line in doctor.check_versions() if line.startswith("warning"))
    assert f"optax 9.9 (tested: {doctor.pins()['optax']})" in warning


def test_a_package_of_some_tasks_may_be_missing(monkeypatch):
    pretend_installed(monkeypatch, {"warp-lang": None, "safetensors": None})
    lines = [line for line in doctor.check_versions() if line.startswith("warning")]
    assert "warning   not installed, which some tasks need: safetensors, warp-lang" in lines


@pytest.mark.parametrize(("mujoco", "warns"), [("4.0.0", True), ("3.17.0", False), (None, False)])
def test_mujoco_4_beside_dm_control_is_a_warning(monkeypatch, mujoco, warns):
    pretend_installed(monkeypatch, {"mujoco": mujoco, "dm_control": "1.0.50"})
    lines = doctor.mujoco_warning()
    assert any("breaks dm_control" in line for line in lines) == warns


def test_too_little_memory_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "FEWEST_BYTES", 2**60)
    assert doctor.main([]) == 2
    assert "of memory are free: close other programs" in capsys.readouterr().err


def test_a_broken_device_is_refused(monkeypatch):
    import jax

    def no_device():
        raise RuntimeError("Unable to initialize backend 'cuda'")

    monkeypatch.setattr(jax, "devices", no_device)
    with pytest.raises(doctor.UsageError, match="Unable to initialize .* JAX_PLATFORMS=cpu"):
        doctor.check_machine()


def test_a_crash_is_reported_in_one_line(monkeypatch):
    missing = "import nothing_of_this_name"
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(doctor, "PARTS", {"one": (crash, BASE, "a"), "two": (missing, BASE, "b")})
    _, one, two = doctor.check_pixels()
    assert one.startswith("one       does not work (ended with code -11)")
    assert "No module named 'nothing_of_this_name'" in two and "pip install --no-deps -r" in two


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (None, ["no driver works", "apt-get install -y libegl1"]),
        (gl.Driver("egl", "llvmpipe (LLVM 15)", on_gpu=False), ["egl", "llvmpipe", "(CPU)"]),
        (gl.Driver("egl", "NVIDIA H100", on_gpu=True), ["NVIDIA H100", "(GPU)"]),
    ],
)
def test_opengl_or_the_remedy_is_named(monkeypatch, driver, words):
    monkeypatch.setattr(doctor, "PARTS", {})
    monkeypatch.setattr(gl, "probe", lambda: driver)
    (line,) = doctor.check_pixels()
    for word in words:
        assert word in line


def test_missing_envpool_is_no_fault(monkeypatch):
    nothing = "raise ModuleNotFoundError(\"No module named 'envpool'\")"
    monkeypatch.setattr(doctor, "PARTS", {"Atari": (nothing, ATARI, "envpool")})
    _, line = doctor.check_pixels()
    assert line.startswith("Atari     not installed: make run installs it")
    assert re.search("-m pip install --no-deps -r .*requirements-atari.txt$", line)


def test_wrong_neighbours_are_refused(monkeypatch):
    right = knn.nearest_distances

    def wrong(queries, ring, *, k):
        return right(queries, ring, k=k).at[7, 2].mul(1.001)

    found = doctor.check_neighbours()
    assert re.fullmatch(r"k-NN      distances within \de-0[67] of float64 on cpu", found[0])
    monkeypatch.setattr("re3_jax.knn.nearest_distances", wrong)
    with pytest.raises(UsageError, match="the k-NN on cpu is wrong by 1e-03: set RE3_JAX_FUSED"):
        doctor.check_neighbours()


@pytest.mark.parametrize("error", [RuntimeError("no such platform"), AssertionError()])
def test_a_backend_that_is_not_here_is_one_sentence(monkeypatch, capsys, error):
    def devices():
        raise error

    monkeypatch.setattr("jax.devices", devices)
    assert doctor.main([]) == 2
    assert "JAX does not work here" in capsys.readouterr().err
