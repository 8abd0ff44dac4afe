"""Lanes against dm_control stepped and rendered directly."""

import numpy as np
import pytest

from re3_jax.envs.host import dmc, gl, make, renderer, tasks
from re3_jax.envs.host.config import DMCConfig
from tests.dm_control_suite import actions, draw, load, to_control

SIZE = 64


def truth(env, task_id, action, repeat):
    """Summed reward and whether the episode ended, as dmc2gym steps dm_control."""
    total = 0.0
    for _ in range(repeat):
        step = env.step(to_control(env, action))
        total += step.reward
        if step.last():
            break
    return total, step.last()


@pytest.mark.parametrize("task_id", [n for n in tasks.PAPER_TASKS if not tasks.find(n).sparse])
def test_rewards_are_dm_controls_summed_over_the_repeat(task_id):
    repeat = tasks.find(task_id).action_repeat
    lane = dmc.Lane(task_id, DMCConfig(action_repeat=repeat))
    env = load(task_id, 7)
    env.reset()
    lane.begin(7)
    for action in actions(task_id, 60):
        outcome = lane.advance(action)
        reward, last = truth(env, task_id, action, repeat)
        assert outcome == (reward, False, False, False)
        assert not last
    np.testing.assert_array_equal(lane.physics.get_state(), env.physics.get_state())


@pytest.mark.parametrize("repeat", [40, 300])
def test_an_episode_is_1000_control_steps_and_its_end_a_truncation(repeat):
    # 300 does not divide 1000: the last agent step is cut short.
    lane = dmc.Lane("cartpole_swingup", DMCConfig(action_repeat=repeat))
    env = load("cartpole_swingup", 3)
    env.reset()
    lane.begin(3)
    steps = -(-1000 // repeat)
    for episode in range(2):
        for number, action in enumerate(actions("cartpole_swingup", steps, episode)):
            outcome = lane.advance(action)
            reward, last = truth(env, "cartpole_swingup", action, repeat)
            assert outcome.reward == reward
            assert outcome.truncated == last == (number == steps - 1)
            assert not outcome.terminated
        env.reset()
        lane.begin_next()


@pytest.mark.parametrize("task_id", ["cheetah_run_sparse", "walker_run_sparse"])
def test_sparse_rewards_are_cut_per_control_step(task_id):
    lane = dmc.Lane(task_id, DMCConfig(action_repeat=4))
    env = load(task_id, 0)
    env.reset()
    lane.begin(0)
    for physics in (lane.physics, env.physics):
        with physics.reset_context():
            physics.named.data.qvel["rootx"] = 4.0
    mixed = 0
    for action in actions(task_id, 12):
        rewards = [env.step(to_control(env, action)).reward for _ in range(4)]
        kept = [reward if reward >= 0.25 else 0.0 for reward in rewards]
        mixed += 0 < sum(reward > 0 for reward in kept) < 4
        assert lane.advance(action).reward == sum(kept)
    assert mixed, "no agent step on both sides of the threshold"


@pytest.mark.parametrize(("threshold", "total"), [("inclusive", 0.25 + 0.26), ("exclusive", 0.26)])
def test_a_reward_of_exactly_the_threshold(monkeypatch, threshold, total):
    lane = dmc.Lane("cheetah_run_sparse", DMCConfig(action_repeat=3, sparse_threshold=threshold))
    lane.begin(0)
    rewards = iter([0.25, 0.2499, 0.26])
    monkeypatch.setattr(lane._env.task, "get_reward", lambda physics: next(rewards))
    assert lane.advance(np.zeros(6)).reward == total


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_actions_of_one_are_the_bounds_of_the_actuators(sign):
    lane = dmc.Lane("quadruped_walk", DMCConfig(action_repeat=1))
    lane.begin(0)
    lane.advance(np.full(12, sign))
    bounds = lane.physics.model.actuator_ctrlrange[:, int(sign > 0)]
    assert (np.abs(bounds) != 1.0).any()
    np.testing.assert_array_equal(lane.physics.data.ctrl, bounds)


def test_actuators_without_bounds_get_the_action_as_it_is():
    lane = dmc.Lane("lqr_lqr_2_1", DMCConfig(action_repeat=1))
    lane.begin(0)
    lane.advance(np.array([-0.5]))
    assert lane.physics.data.ctrl[0] == -0.5


@pytest.mark.parametrize("distance", [1.0, 1e-9])
def test_a_task_that_ends_terminates(distance):
    """Of the suite's tasks lqr alone does, at rest at the origin."""
    lane = dmc.Lane("lqr_lqr_2_1", DMCConfig(action_repeat=4))
    lane.begin(0)
    with lane.physics.reset_context():
        lane.physics.data.qpos[:], lane.physics.data.qvel[:] = distance, 0.0
    outcome = lane.advance(np.zeros(1))
    assert (outcome.terminated, outcome.truncated) == (distance < 1, False)


def test_a_simulation_that_diverges_is_cut():
    lane = dmc.Lane("cheetah_run", DMCConfig())
    lane.begin(0)
    lane.physics.data.qvel[:] = 1e12
    outcome = lane.advance(np.zeros(6))
    assert outcome.truncated and outcome.diverged and not outcome.terminated
    lane.begin_next()
    assert lane.advance(np.zeros(6)).diverged is False


def test_frames_of_gl_equal_dm_controls_bit_for_bit():
    if gl.probe() is None:
        pytest.skip(gl.missing())
    # Two lanes in one worker, so that two contexts share a process; one in each is in test_lanes.
    task_id, seeds = "reacher_hard", [5, 6]
    config = DMCConfig(image_size=SIZE, action_repeat=250, renderer="gl", workers=1)
    lanes = make(task_id, config, 2)
    try:
        truths = [load(task_id, seed) for seed in seeds]
        for env in truths:
            env.reset()
        first = lanes.reset(np.array(seeds))
        np.testing.assert_array_equal(first, [draw(env, task_id, SIZE) for env in truths])
        for number, action in enumerate(actions(task_id, 6)):
            lanes.send(np.stack([action, -action]))
            step = lanes.receive()
            results = [
                truth(env, task_id, sign * action, 250)
                for env, sign in zip(truths, (1, -1), strict=True)
            ]
            last_frames = [draw(env, task_id, SIZE) for env in truths]
            np.testing.assert_array_equal(step.reward, np.float32([r for r, _ in results]))
            np.testing.assert_array_equal(step.final_frame, last_frames)
            np.testing.assert_array_equal(step.truncated, [number == 3] * 2)
            assert not step.terminated.any()
            if number == 3:
                for env in truths:
                    env.reset()
                assert (step.frame != step.final_frame).any()
            np.testing.assert_array_equal(step.frame, [draw(env, task_id, SIZE) for env in truths])
    finally:
        lanes.close()


@pytest.mark.parametrize(
    ("name", "mean", "largest"), [("gl_small_shadows", 0.1, 60), ("gl_cheap", 2, 255)]
)
def test_cheap_renders_are_close(name, mean, largest):
    if gl.probe() is None:
        pytest.skip(gl.missing())
    load("cheetah_run", 0)
    pictures = []
    for renderer_name in ("gl", name):
        lane = dmc.Lane("cheetah_run", DMCConfig())
        drawing = renderer.make(renderer_name, [lane], 100)
        lane.begin(1)
        pictures.append(drawing.draw([0])[0].astype(int))
        lane.physics.free()
    difference = np.abs(pictures[0] - pictures[1])
    assert 0 < difference.mean() < mean
    assert difference.max() <= largest


def test_a_task_with_a_context_of_its_own_is_drawn_as_asked():
    """quadruped_escape makes one when an episode begins, before the renderer is chosen."""
    if gl.probe() is None:
        pytest.skip(gl.missing())
    load("quadruped_escape", 0)
    pictures = []
    for name in ("gl", "gl_cheap"):
        lane = dmc.Lane("quadruped_escape", DMCConfig())
        pictures.append(renderer.make(name, [lane], 100).draw([0])[0])
        lane.physics.free()
    assert not np.array_equal(*pictures)


@pytest.mark.slow
def test_warp_draws_what_gl_draws():
    if gl.probe() is None:
        pytest.skip(gl.missing())
    task_id = "cheetah_run"
    pictures = {}
    for name in ("gl", "warp"):
        lanes = make(task_id, DMCConfig(image_size=SIZE, action_repeat=20, renderer=name), 2)
        try:
            frames = [lanes.reset(np.array([1, 2]))]
            for action in actions(task_id, 3):
                lanes.send(np.stack([action, -action]))
                frames.append(lanes.receive().frame)
        finally:
            lanes.close()
        pictures[name] = np.concatenate(frames).astype(float)
    assert pictures["warp"].shape == (8, SIZE, SIZE, 3)
    difference = np.abs(pictures["warp"][:, None] - pictures["gl"][None]).mean((2, 3, 4))
    assert np.diag(difference).max() < 8
    # Each frame is nearest to the frame of the same state, among eight states in motion.
    np.testing.assert_array_equal(difference.argmin(1), np.arange(8))
    colours = pictures["warp"].mean((0, 1, 2)) - pictures["gl"].mean((0, 1, 2))
    assert np.abs(colours).max() < 5
