"""DeepMind Control's tasks: names, specifications, and refused configurations."""

import numpy as np
import pytest

from re3_jax.envs.base import Box
from re3_jax.envs.host import dmc, make, tasks
from re3_jax.envs.host.config import DMCConfig
from tests import dm_control_suite


def test_the_names_are_those_of_the_suite_and_the_two_sparse_tasks():
    suite = {"_".join(names) for names in dm_control_suite.suite_tasks()}
    assert set(tasks.names()) == suite | {"cheetah_run_sparse", "walker_run_sparse"}


def test_the_papers_tasks_are_the_15_of_the_authors_data():
    assert len(set(tasks.PAPER_TASKS)) == 15
    assert set(tasks.PAPER_TASKS) <= set(tasks.names())


@pytest.mark.parametrize("task_id", [*tasks.PAPER_TASKS, "humanoid_CMU_run", "lqr_lqr_6_2"])
def test_actions_have_the_length_of_dm_controls(task_id):
    env = dm_control_suite.load(task_id, 0)
    assert env.action_spec().shape == (tasks.find(task_id).action_dim,)


def test_the_quadruped_repeats_four_times_and_is_seen_by_another_camera():
    assert tasks.find("quadruped_run")[3:] == (4, 2, False)
    assert {tasks.find(name)[3:5] for name in tasks.PAPER_TASKS if name != "quadruped_run"} == {
        (2, 0)
    }


def test_sparse_tasks_are_dm_controls_dense_ones():
    assert tasks.find("cheetah_run_sparse")[:2] == ("cheetah", "run")
    assert tasks.find("walker_run_sparse").sparse
    assert not tasks.find("cartpole_swingup_sparse").sparse


@pytest.mark.parametrize("task_id", ["cheetah_walk", "cheetah", "", "humanoid_CMU", "walker_"])
def test_an_unknown_task_is_one_sentence(task_id):
    with pytest.raises(ValueError, match="unknown DeepMind Control task"):
        make(task_id, DMCConfig(), 1)


@pytest.mark.parametrize(
    ("action_repeat", "agent_steps"), [(1, 1000), (2, 500), (3, 334), (4, 250)]
)
def test_the_specification(action_repeat, agent_steps):
    spec = dmc.spec("hopper_hop", DMCConfig(image_size=64, action_repeat=action_repeat))
    assert spec.task == "dmc:hopper_hop"
    assert spec.observation_shape == (64, 64, 9)
    assert spec.observation_dtype == np.uint8
    assert spec.action_space == Box((4,), -1.0, 1.0)
    assert spec.max_agent_steps == agent_steps
    assert spec.action_repeat == action_repeat


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("image_size", 0),
        ("action_repeat", 0),
        ("action_repeat", 1001),
        ("frame_stack", 0),
        ("workers", 0),
        ("step_timeout_seconds", 0.0),
        ("step_timeout_seconds", float("nan")),
        ("sparse_threshold", ">"),
        ("engine", "gym"),
        ("renderer", "osmesa"),
    ],
)
def test_a_configuration_that_cannot_work_names_its_field(name, value):
    with pytest.raises(ValueError, match=f"^(unknown )?{name} "):
        DMCConfig(**{name: value})


def test_envpool_cannot_draw_with_warp():
    with pytest.raises(ValueError, match="renderer must be a GL one"):
        DMCConfig(engine="envpool", renderer="warp")


def test_no_lanes_are_refused():
    with pytest.raises(ValueError, match="num_lanes must be at least 1"):
        make("cheetah_run", DMCConfig(), 0)
