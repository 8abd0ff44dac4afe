"""dm_control's own suite, imported with the renderer that works on this machine."""

import os

import numpy as np

from re3_jax.envs.host import gl, tasks


def load(task_id, seed):
    """dm_control's own environment; a sparse task gets its dense one."""
    driver = gl.probe()
    os.environ.setdefault("MUJOCO_GL", driver.backend if driver else "disable")
    from dm_control import suite

    task = tasks.find(task_id)
    return suite.load(task.domain, task.task, task_kwargs={"random": seed})


def suite_tasks():
    """Every task of the suite, as (domain, task)."""
    driver = gl.probe()
    os.environ.setdefault("MUJOCO_GL", driver.backend if driver else "disable")
    from dm_control import suite

    return suite.ALL_TASKS


def draw(env, task_id, size):
    return env.physics.render(size, size, camera_id=tasks.find(task_id).camera)


def actions(task_id, steps, seed=0):
    """Random actions, float32 [step, action] as an agent gives them."""
    draws = np.random.default_rng(seed).uniform(-1, 1, (steps, tasks.find(task_id).action_dim))
    return draws.astype(np.float32)


def to_control(env, action):
    """dmc2gym's map of [-1, 1] onto the bounds of the task."""
    bounds = env.action_spec()
    unit = (action.astype(np.float64) + 1.0) / 2.0
    return unit * (bounds.maximum - bounds.minimum) + bounds.minimum
