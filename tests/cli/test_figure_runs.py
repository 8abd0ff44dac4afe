"""Parallel runs of a figure: each on its own cores, and no run is trained twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.figures import rows
from experiments.figures.runs import Run, Runs
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError
from tests.cli.written_runs import finish

CORES = len(os.sched_getaffinity(0))
needs_two_cores = pytest.mark.skipif(CORES < 2, reason="one core")

MEET = """
import os, pathlib, sys, time
mine, other, most = *map(pathlib.Path, sys.argv[1:3]), int(sys.argv[3])
end = time.monotonic() + 60

def wait(done):
    while not done():
        if time.monotonic() > end:
            sys.exit(3)
        time.sleep(0.01)

# The cores are set once the process runs.
wait(lambda: len(os.sched_getaffinity(0)) <= most)
mine.write_text(" ".join(map(str, os.sched_getaffinity(0))))
wait(other.exists)
print("met")
"""
MOST = (CORES + 1) // 2
"""Cores of the larger of two shares."""


@needs_two_cores
def test_two_processes_run_at_once_on_different_cores(tmp_path, capfd):
    runs, files = Runs(tmp_path, 2), [tmp_path / "a", tmp_path / "b"]

    def meet(i):
        command = [sys.executable, "-c", MEET, str(files[i]), str(files[1 - i]), str(MOST)]
        return runs.start(command, tmp_path / f"run-{i}.log")

    assert runs.map(meet, [0, 1]) == [0, 0]
    assert sorted(capfd.readouterr().out.splitlines()) == ["run-0: done", "run-1: done"]
    assert [(tmp_path / f"run-{i}.log").read_text() for i in (0, 1)] == ["met\n", "met\n"]
    one, other = (set(file.read_text().split()) for file in files)
    assert one and other and not one & other


@needs_two_cores
def test_a_process_keeps_to_its_share_of_the_cores(tmp_path):
    runs = Runs(tmp_path, 2)
    # The cores are set once the process runs.
    code = f"""
import os, time
until = time.monotonic() + 60
while len(os.sched_getaffinity(0)) > {MOST}:
    assert time.monotonic() < until
    time.sleep(0.01)
"""
    assert runs.start([sys.executable, "-c", code], tmp_path / "run.log") == 0


@needs_two_cores
def test_the_exit_code_and_the_log_are_printed(tmp_path, capfd):
    command = [sys.executable, "-c", "import sys; sys.exit(7)"]
    assert Runs(tmp_path, 2).start(command, tmp_path / "run.log") == 7
    assert capfd.readouterr().out == f"run: exit code 7, see {tmp_path / 'run.log'}\n"


def test_a_signal_that_comes_while_a_run_begins_reaches_it(tmp_path, monkeypatch):
    runs = Runs(tmp_path)
    begin = subprocess.Popen

    def interrupted(*words, **options):
        process = begin(*words, **options)
        runs._stop(signal.SIGTERM, None)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert runs.start(command, tmp_path / "run.log") == 128 + signal.SIGTERM


@needs_two_cores
def test_an_error_is_raised_once_the_other_runs_are_done(tmp_path):
    ended = []

    def work(i):
        if i == 0:
            raise SystemExit(130)
        ended.append(i)

    with pytest.raises(SystemExit, match="130"):
        Runs(tmp_path, 2).map(work, range(4))
    assert sorted(ended) == [1, 2, 3]


def test_one_at_a_time_keeps_the_order_and_the_terminal(tmp_path, capfd):
    runs, log = Runs(tmp_path), tmp_path / "run.log"

    def work(i):
        return runs.start([sys.executable, "-c", f"print({i})"], log)

    assert runs.map(work, range(3)) == [0, 0, 0]
    assert capfd.readouterr().out == "0\n1\n2\n"
    assert not log.exists()


@pytest.mark.parametrize("at_once", [0, CORES + 1])
def test_more_jobs_than_cores_are_refused(tmp_path, at_once):
    with pytest.raises(UsageError, match=f"--jobs must be from 1 to {CORES}"):
        Runs(tmp_path, at_once)


TELL = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
pathlib.Path(sys.argv[1]).write_text("")
time.sleep(60)
"""


@pytest.mark.parametrize("is_search", [False, True])
@pytest.mark.parametrize("at_once", [1, pytest.param(2, marks=needs_two_cores)])
def test_a_signal_is_passed_on_and_nothing_more_begins(tmp_path, monkeypatch, at_once, is_search):
    """Each run ends as it does alone, with its own exit code."""
    runs = Runs(tmp_path, at_once)
    begun = []

    def ensure(runs, run):
        begun.append(path := tmp_path / f"{run.seed}")
        code = runs.start([sys.executable, "-c", TELL, str(path)], tmp_path / f"{run.seed}.log")
        raise SystemExit(code)

    def stop():
        # Which of the runs begin first is open.
        while sum((tmp_path / f"{seed}").exists() for seed in range(1, 5)) < at_once:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Runs, "ensure", ensure)
    threading.Thread(target=stop).start()
    wanted = [Run("doorkey_6x6", "re3", "released", 1, 1, seed=seed) for seed in range(1, 5)]
    with pytest.raises(SystemExit, match="143"):
        # A search of weights has no list of all its runs.
        runs.map(partial(ensure, runs), wanted) if is_search else runs.ensure_all(wanted)
    assert len([path for path in begun if path.exists()]) == at_once


@pytest.mark.parametrize(("steps", "points"), [(100, 2), (150, 3), (200, 3), (900, 4)])
def test_a_run_that_went_on_is_drawn_as_far_as_the_others(steps, points):
    frames = np.array([0, 100, 200, 300])
    cut = rows.up_to(Curve("a run", frames, np.tile(frames / 100, (2, 1))), steps)
    assert cut.env_frames.tolist() == frames[:points].tolist()
    assert cut.returns.shape == (2, points) and cut.returns[0, -1] == points - 1


def test_a_figure_of_fewer_steps_leaves_the_rest_of_a_run_out(tmp_path):
    run = Run("doorkey_6x6", "none", "debug", 2, 100)
    finish(Runs(tmp_path), run._replace(steps=300), {0: 0.0, 100: 0.1, 200: 0.2, 300: 0.3})
    words = SimpleNamespace(runs=tmp_path, jobs=1, out=tmp_path / "out", finished=True)
    curve = rows.load(words, [rows.Row("a run", "a", run)])["a"]
    assert curve.env_frames.tolist() == [0, 100] and curve.returns[:, -1].tolist() == [0.1, 0.1]
