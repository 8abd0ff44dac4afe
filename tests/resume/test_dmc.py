"""A lane restored in another process continues like one that was never stopped."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from re3_jax.envs.host import dmc, gl, make, tasks
from re3_jax.envs.host.config import DMCConfig
from tests.dm_control_suite import actions, load

CONFIG = DMCConfig(action_repeat=50)
MORE = ("finger_turn_hard", "point_mass_hard", "swimmer_swimmer6")
"""In addition to the paper's: tasks that change their model when an episode starts."""

GO_ON = """
import pickle, sys
from tests.resume.test_dmc import go_on
with open(sys.argv[1], "rb") as file:
    saved = pickle.load(file)
with open(sys.argv[2], "wb") as file:
    pickle.dump({task_id: go_on(task_id, state) for task_id, state in saved.items()}, file)
"""


def go_on(task_id, state, lane=None):
    """Outcomes of 10 steps over the end of an episode, and the state after them."""
    if lane is None:
        lane = dmc.Lane(task_id, CONFIG)
        lane.set_state(state)
    outcomes = []
    for action in actions(task_id, 10, seed=1):
        outcomes.append(tuple(lane.advance(action)))
        if outcomes[-1][1] or outcomes[-1][2]:
            lane.begin_next()
    return outcomes, lane.get_state()


@pytest.mark.slow
@pytest.mark.resume
def test_every_task_resumes_bit_for_bit_in_a_new_process(tmp_path):
    load("cheetah_run", 0)
    saved, expected = {}, {}
    for task_id in (*tasks.PAPER_TASKS, *MORE):
        lane = dmc.Lane(task_id, CONFIG)
        lane.begin(11)
        # A second episode, whose targets the task's random state has drawn.
        lane.begin_next()
        for action in actions(task_id, 15):
            lane.advance(action)
        saved[task_id] = lane.get_state()
        expected[task_id] = go_on(task_id, None, lane)
    (tmp_path / "saved").write_bytes(pickle.dumps(saved))
    environment = {**os.environ, "MUJOCO_GL": "disable"}
    paths = [str(tmp_path / "saved"), str(tmp_path / "answer")]
    command = [sys.executable, "-c", GO_ON, *paths]
    subprocess.run(command, env=environment, check=True, timeout=1200)
    answer = pickle.loads((tmp_path / "answer").read_bytes())
    for task_id, (outcomes, state) in expected.items():
        restored_outcomes, restored_state = answer[task_id]
        assert restored_outcomes == outcomes, task_id
        assert sum(outcome[2] for outcome in outcomes) == 1, task_id
        for name, value in state.items():
            np.testing.assert_array_equal(restored_state[name], value, err_msg=f"{task_id} {name}")
            assert restored_state[name].dtype == saved[task_id][name].dtype
            assert restored_state[name].shape == saved[task_id][name].shape


@pytest.mark.resume
@pytest.mark.parametrize(
    ("task_id", "name"),
    [
        ("reacher_hard", "gl"),
        pytest.param("quadruped_escape", "gl", marks=pytest.mark.slow),
        ("cheetah_run_sparse", "warp"),
    ],
)
def test_frames_resume_bit_for_bit(task_id, name):
    if name == "gl" and gl.probe() is None:
        pytest.skip(gl.missing())
    config = DMCConfig(image_size=48, action_repeat=100, renderer=name)
    env = make(task_id, config, 2)
    try:
        env.reset(np.array([3, 4]))
        steps = []
        for number, action in enumerate(actions(task_id, 24)):
            if number == 15:
                state = env.get_state()
            env.send(np.stack([action, -action]))
            steps.append(env.receive())
    finally:
        env.close()
    assert steps[19].truncated.all()
    restored = make(task_id, config, 2)
    try:
        restored.set_state(state)
        for action, expected in zip(actions(task_id, 24)[15:], steps[15:], strict=True):
            restored.send(np.stack([action, -action]))
            for one, other in zip(restored.receive(), expected, strict=True):
                np.testing.assert_array_equal(one, other)
    finally:
        restored.close()
