"""Envpool's lanes against dm_control, and against envpool's own environments."""

import os
import subprocess
import sys

import numpy as np
import pytest

from re3_jax.envs.host import envpool, tasks
from re3_jax.envs.host.config import DMCConfig

pytest.importorskip("envpool_assets", reason="envpool is not installed")


@pytest.fixture(scope="module", autouse=True)
def _needs_gl():
    reason = envpool.failure()
    if reason is not None:
        pytest.skip(f"envpool cannot draw here: {reason}")


@pytest.fixture
def lanes():
    made = []

    def make(task, num_lanes=1, **config):
        made.append(envpool.EnvPoolLanes(task, DMCConfig(**config), num_lanes))
        return made[-1]

    yield make
    for one in made:
        one.close()


def step(env, action):
    env.send(action)
    return env.receive()


def states(task, seeds, **options):
    """Envpool's own environment of states."""
    pool = envpool.load().make_dm(
        envpool.pool_name(tasks.find(task)), num_envs=len(seeds), seed=list(seeds), **options
    )
    return pool, pool.reset()


def start_planar(physics, observation):
    """Cheetah and hopper: all positions except the distance from the episode's start."""
    physics.data.qpos[1:] = observation.position[0]
    physics.data.qvel[:] = observation.velocity[0]


def start_cartpole(physics, observation):
    x, cosine, sine = observation.position[0]
    physics.data.qpos[:] = x, np.arctan2(sine, cosine)
    physics.data.qvel[:] = observation.velocity[0]


def start_pendulum(physics, observation):
    cosine, sine = observation.orientation[0]
    physics.data.qpos[:] = np.arctan2(sine, cosine)
    physics.data.qvel[:] = observation.velocity[0]


@pytest.mark.parametrize(
    # Seeds for which random actions earn a reward.
    ("task", "start", "seed"),
    [
        ("cheetah_run", start_planar, 4),
        ("hopper_stand", start_planar, 26),
        ("cartpole_swingup", start_cartpole, 11),
        ("pendulum_swingup", start_pendulum, 27),
    ],
)
def test_rewards_and_frames_are_dm_controls(lanes, monkeypatch, task, start, seed):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    from dm_control import suite

    env = lanes(task, image_size=64, action_repeat=2)
    frames = [env.reset(np.array([seed]))[0]]
    _, first = states(task, [seed])
    reference = suite.load(*task.split("_", 1), task_kwargs={"random": 0})
    reference.reset()
    with reference.physics.reset_context():
        start(reference.physics, first.observation)
    drawn = [reference.physics.render(64, 64, camera_id=0)]
    generator, total = np.random.default_rng(seed), 0.0
    for action in generator.uniform(-1, 1, (6, 1, *env.spec.action_space.shape)):
        outcome = step(env, action)
        frames.append(outcome.frame[0])
        rewards = [reference.step(action[0]).reward for _ in range(2)]
        total += sum(rewards)
        drawn.append(reference.physics.render(64, 64, camera_id=0))
        np.testing.assert_allclose(outcome.reward[0], sum(rewards), rtol=1e-5, atol=1e-7)
    assert total > 0
    frames, drawn = np.array(frames, np.float32), np.array(drawn, np.float32)
    # The older MuJoCo lights the floor slightly differently, but movements stay visible.
    distance = np.abs(frames[:, None] - drawn[None]).mean(axis=(2, 3, 4))
    assert distance.diagonal().max() < 6
    np.testing.assert_array_equal(distance.argmin(axis=1), np.arange(len(frames)))


def test_frames_are_those_of_envpools_pixel_environment(lanes):
    env = lanes("quadruped_run", 2, image_size=64, action_repeat=4)
    frame = env.reset(np.array([3, 4]))
    own = envpool.load().make_dm(
        "QuadrupedRun-v1",
        num_envs=2,
        seed=[3, 4],
        from_pixels=True,
        render_width=64,
        render_height=64,
        render_camera_id=2,
        frame_skip=16,
    )
    np.testing.assert_array_equal(frame, own.reset().observation.pixels.transpose(0, 2, 3, 1))
    # Bounds of the quadruped's actions are neither -1 and 1 nor symmetric.
    bounds = own.action_spec()
    for unit in np.random.default_rng(1).uniform(-1, 1, (2, 2, 12)):
        action = bounds.minimum + (unit + 1) / 2 * (bounds.maximum - bounds.minimum)
        pixels = own.step(action).observation.pixels
        np.testing.assert_array_equal(step(env, unit).frame, pixels.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("threshold", ["inclusive", "exclusive"])
def test_sparse_rewards_are_cut_before_they_are_summed(lanes, monkeypatch, threshold):
    actions = np.random.default_rng(2).uniform(-1, 1, (4, 1, 6))
    pool, _ = states("walker_run", [0])
    rewards = np.array([[pool.step(a).reward[0] for _ in range(5)] for a in actions])
    limit = np.sort(rewards[1])[2]
    mixed = (rewards < limit).any(axis=1) & (rewards > limit).any(axis=1)
    assert mixed.any() and (rewards == limit).any()
    # No reward is exactly 0.25, so the test moves the threshold to a reward that occurs.
    monkeypatch.setattr(tasks, "SPARSE_THRESHOLD", limit)
    env = lanes("walker_run_sparse", image_size=16, action_repeat=5, sparse_threshold=threshold)
    env.reset(np.array([0]))
    got = [step(env, a).reward[0] for a in actions]
    kept = rewards >= limit if threshold == "inclusive" else rewards > limit
    np.testing.assert_allclose(got, np.where(kept, rewards, 0).sum(axis=1), rtol=1e-6)


def test_episodes_end_after_a_thousand_control_steps(lanes):
    env = lanes("cartpole_swingup", 2, image_size=32, action_repeat=300)
    pool, _ = states("cartpole_swingup", [1, 2])
    first = env.reset(np.array([1, 2]))
    assert env.spec.max_agent_steps == 4
    actions = np.random.default_rng(3).uniform(-1, 1, (8, 2, 1))
    starts = [first]
    for i, action in enumerate(actions):
        outcome = step(env, action)
        rewards = [pool.step(action).reward for _ in range(100 if i % 4 == 3 else 300)]
        np.testing.assert_allclose(outcome.reward, np.sum(rewards, axis=0), rtol=1e-4)
        ended = i % 4 == 3
        assert not outcome.terminated.any()
        assert (outcome.truncated == ended).all()
        changed = (outcome.frame != outcome.final_frame).any(axis=(1, 2, 3))
        assert (changed == ended).all()
        if ended:
            # Envpool's own reset comes with the next step, whose action it drops.
            assert (pool.step(np.zeros((2, 1))).step_type == 0).all()
            starts.append(outcome.frame)
    assert (starts[1] != starts[2]).any(axis=(1, 2, 3)).all()


def test_actions_of_a_task_without_limits_are_forces(lanes):
    """As in dm_control's lanes: else an action of 0.5 would be a force of 5e9."""
    env = lanes("lqr_lqr_2_1")
    env.reset(np.array([1]))
    assert step(env, np.array([[0.5]])).reward[0] > 0


def test_a_lane_follows_its_seed_alone(lanes):
    env = lanes("pendulum_swingup", 2, image_size=24)
    action = np.array([[0.3], [-0.7]])
    frames = env.reset(np.array([5, 6]))
    outcome = step(env, action)
    assert (frames[0] != frames[1]).any()
    np.testing.assert_array_equal(env.reset(np.array([5, 6])), frames)
    np.testing.assert_array_equal(step(env, action).frame, outcome.frame)
    assert (env.reset(np.array([7, 6]))[0] != frames[0]).any()
    alone = lanes("pendulum_swingup", image_size=24)
    np.testing.assert_array_equal(alone.reset(np.array([6]))[0], frames[1])
    one = step(alone, action[1:])
    np.testing.assert_array_equal(one.frame[0], outcome.frame[1])
    assert one.reward[0] == outcome.reward[1]


def test_the_next_step_does_not_change_returned_frames(lanes):
    env = lanes("cheetah_run", image_size=24)
    frame = env.reset(np.array([0]))
    outcome = step(env, np.ones((1, 6)))
    copies = frame.copy(), outcome.frame.copy(), outcome.reward.copy()
    step(env, -np.ones((1, 6)))
    for kept, copy in zip((frame, outcome.frame, outcome.reward), copies, strict=True):
        np.testing.assert_array_equal(kept, copy)


def test_cheaper_renders_look_almost_the_same(lanes):
    frames = {}
    for renderer in envpool.VISUAL_CHANGES:
        env = lanes("hopper_stand", image_size=100, renderer=renderer)
        frames[renderer] = env.reset(np.array([9])).astype(np.float32)
    small = np.abs(frames["gl_small_shadows"] - frames["gl"])
    cheap = np.abs(frames["gl_cheap"] - frames["gl"])
    assert 0 < small.mean() < 0.1
    assert small.mean() < cheap.mean() < 1.5


def test_saving_states_is_refused(lanes):
    env = lanes("pendulum_swingup", image_size=16)
    assert not env.can_restore
    with pytest.raises(ValueError, match="use the engine dm_control"):
        env.get_state()
    with pytest.raises(ValueError, match="use the engine dm_control"):
        env.set_state({})
    with pytest.raises(ValueError, match="as many seeds"):
        env.reset(np.array([1, 2]))


def run_apart(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@pytest.mark.slow
def test_a_missing_driver_is_one_sentence():
    code = """
from re3_jax.envs.host import envpool
from re3_jax.envs.host.config import DMCConfig
try:
    envpool.EnvPoolLanes("cheetah_run", DMCConfig(), 1)
except ValueError as error:
    print(error)
"""
    result = run_apart(code, __EGL_VENDOR_LIBRARY_DIRS="/nonexistent")
    assert result.returncode == 0, result.stderr
    assert "apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri" in result.stdout
    assert result.stdout.count("\n") == 1


@pytest.mark.slow
def test_an_envpool_that_was_imported_too_early_is_refused():
    code = """
import envpool
from re3_jax.envs.host import envpool
try:
    envpool.load()
except ValueError as error:
    print(error)
"""
    result = run_apart(code)
    assert result.returncode == 0, result.stderr
    assert "before anything imports envpool" in result.stdout
