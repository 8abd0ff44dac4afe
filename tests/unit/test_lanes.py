"""Worker processes: what they import, how lost ones are replaced, and that none stays behind."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from re3_jax.envs.host import dmc, make, worker_process
from re3_jax.envs.host.config import DMCConfig
from re3_jax.envs.host.lanes import DMCLanes
from re3_jax.envs.host.lost import LostWorkers
from tests.dm_control_suite import actions, load

TASK = "pendulum_swingup"


def workers():
    """Living worker processes of this process, oldest first."""
    children = psutil.Process().children()
    found = [c for c in children if "re3_jax.envs.host.worker" in c.cmdline()]
    return sorted(found, key=lambda child: (child.create_time(), child.pid))


@pytest.fixture
def start():
    made = []

    def start(num_lanes=2, **config):
        said = []
        config = {"image_size": 16, "workers": 2, **config}
        made.append(make(TASK, DMCConfig(**config), num_lanes, said.append))
        return made[-1], said

    yield start
    for env in made:
        env.close()
    assert not workers()


def step(env, seed=0):
    env.send(np.stack([actions(TASK, 1, seed)[0]] * env.num_lanes))
    return env.receive()


def test_a_worker_imports_no_jax():
    code = (
        "import sys; import re3_jax.envs.host.worker; from re3_jax.envs.host import dmc, warp\n"
        "warp._mujoco_warp(); from dm_control import suite\n"
        "assert 'jax' not in sys.modules, 'jax'"
    )
    environment = {**os.environ, "MUJOCO_GL": "disable"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=1200)


def test_a_killed_worker_is_replaced_and_its_episode_cut(start):
    env, said = start()
    env.reset(np.array([1, 2]))
    before = step(env)
    workers()[0].kill()
    after = step(env, 1)
    assert len(said) == 1 and "lanes 0 to 0 died (exit code -9)" in said[0]
    np.testing.assert_array_equal(after.truncated, [True, False])
    np.testing.assert_array_equal(after.terminated, [False, False])
    np.testing.assert_array_equal(env.lost, [True, False])
    assert after.reward[0] == 0
    np.testing.assert_array_equal(after.final_frame[0], before.frame[0])
    assert (after.frame[0] != before.frame[0]).any()
    # The replacement episode continues, and the other lane is unaffected.
    later = [step(env, number) for number in range(2, 6)]
    assert not any(one.truncated.any() for one in later)
    assert not env.lost.any()
    load(TASK, 0)
    undisturbed = dmc.Lane(TASK, DMCConfig())
    undisturbed.begin(2)
    for number, one in enumerate((before, after, *later)):
        assert one.reward[1] == np.float32(undisturbed.advance(actions(TASK, 1, number)[0]).reward)
    assert len(said) == 1
    assert len(workers()) == 2


def test_every_replacement_begins_another_episode(start):
    env, _ = start(num_lanes=1)
    env.reset(np.array([1]))
    begun = []
    for _ in range(2):
        workers()[0].kill()
        begun.append(step(env).frame)
    assert (begun[0] != begun[1]).any()


def test_a_simulation_that_diverged_is_reported(start):
    env, said = start()
    env.reset(np.array([1, 2]))
    step(env)
    state = env.get_state()
    assert not said
    # After the time its angle and its velocity, which soon takes it past MuJoCo's 1e10.
    state["physics"][1, 1:3] = 9.99e9
    env.set_state(state)
    np.testing.assert_array_equal(step(env).truncated, [False, True])
    assert said == ["lane 1: the simulation diverged, its episode was cut"]


def test_a_hung_worker_is_replaced(start):
    env, said = start()
    env.reset(np.array([1, 2]))
    step(env)
    hung = workers()[1]
    hung.suspend()
    # Only now: before, a busy machine may need as long.
    env._timeout = 3.0
    after = step(env, 1)
    np.testing.assert_array_equal(after.truncated, [False, True])
    assert len(said) == 1 and "lanes 1 to 1 did not answer for 3 s" in said[0]
    assert not hung.is_running()
    assert not step(env, 2).truncated.any()


@pytest.mark.slow
def test_a_lost_worker_cuts_the_episode_after_a_restore_too(start):
    env, said = start(workers=1)
    env.reset(np.array([1, 2]))
    before = step(env)
    workers()[0].kill()
    state = env.get_state()
    assert len(said) == 1
    other, _ = start(workers=2)
    other.set_state(state)
    for after in (step(env, 1), step(other, 1)):
        np.testing.assert_array_equal(after.truncated, [True, True])
        np.testing.assert_array_equal(after.reward, [0, 0])
        np.testing.assert_array_equal(after.final_frame, before.frame)
    one, two = step(env, 2), step(other, 2)
    np.testing.assert_array_equal(one.reward, two.reward)
    np.testing.assert_array_equal(one.frame, two.frame)


@pytest.mark.parametrize("call", [step, DMCLanes.get_state])
def test_losing_many_workers_in_a_row_ends_the_run(start, monkeypatch, call):
    env, said = start(num_lanes=1)
    env.reset(np.array([1]))
    workers()[0].kill()
    monkeypatch.setattr(worker_process.sys, "executable", "/bin/false")
    with pytest.raises(LostWorkers, match="4 workers were lost in a row.* with --resume"):
        call(env)
    assert len(said) == 3


def test_a_renderer_that_fails_leaves_no_shared_memory_open(monkeypatch):
    monkeypatch.setattr(worker_process.gl, "probe", lambda: None)
    created = []
    memfd_create = os.memfd_create

    def create(name):
        created.append(memfd_create(name))
        return created[-1]

    monkeypatch.setattr(os, "memfd_create", create)
    with pytest.raises(ValueError, match="GL"):
        DMCLanes(TASK, DMCConfig(image_size=16), 1, "gl", print)
    for memory_fd in created:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(memory_fd)


@pytest.mark.slow
def test_reset_survives_a_lost_worker(start):
    env, said = start()
    first = env.reset(np.array([1, 2]))
    workers()[0].kill()
    np.testing.assert_array_equal(env.reset(np.array([1, 2]))[1], first[1])
    assert len(said) == 1
    assert not step(env).truncated.any()


def test_close_leaves_no_process_and_may_be_called_twice(start):
    env, _ = start()
    assert len(workers()) == 2
    env.close()
    assert not workers()
    env.close()


def test_no_worker_outlives_a_parent_that_is_killed():
    code = (
        "import numpy as np, psutil, time\n"
        "from re3_jax.envs.host import make\n"
        "from re3_jax.envs.host.config import DMCConfig\n"
        f"env = make({TASK!r}, DMCConfig(image_size=16, workers=2), 2)\n"
        "print(*[child.pid for child in psutil.Process().children()], flush=True)\n"
        "time.sleep(300)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        # One worker hangs, so it cannot see that the connection has ended.
        os.kill(pids[0], signal.SIGSTOP)
        parent.kill()
    deadline = time.monotonic() + 20
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [p for p in pids if psutil.pid_exists(p)]
    assert not [p for p in left if psutil.Process(p).status() != psutil.STATUS_ZOMBIE]
