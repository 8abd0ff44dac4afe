"""Names of tasks: the environments they make, and the errors for unknown names."""

import builtins
import subprocess
import sys

import gymnax
import numpy as np
import pytest

from re3_jax.envs import registry
from re3_jax.envs.device import gymnax as gymnax_adapter


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("empty_16x16", "minigrid:Empty-16x16"),
        ("doorkey_6x6", "minigrid:DoorKey-6x6"),
        ("doorkey_8x8", "minigrid:DoorKey-8x8"),
        ("minigrid:Empty-5x5", "minigrid:Empty-5x5"),
        ("minigrid:MiniGrid-DoorKey-6x6-v0", "minigrid:DoorKey-6x6"),
        ("MiniGrid-DoorKey-16x16-v0", "minigrid:DoorKey-16x16"),
        ("doorkey_16x16", "minigrid:DoorKey-16x16"),
        ("fourrooms", "minigrid:FourRooms"),
        ("simplecrossing_s9n3", "minigrid:SimpleCrossingS9N3"),
        ("lavagap_s7", "minigrid:LavaGapS7"),
        ("blockedunlockpickup", "minigrid:BlockedUnlockPickup"),
        ("multiroom_n2_s4", "minigrid:MultiRoom-N2-S4"),
        ("keycorridor_s3r3", "minigrid:KeyCorridorS3R3"),
        ("obstructedmaze_2dlhb", "minigrid:ObstructedMaze-2Dlhb"),
        ("MiniGrid-MultiRoom-N6-v0", "minigrid:MultiRoom-N6"),
        ("minigrid:MultiRoom-N4-S5-v1", "minigrid:MultiRoom-N4-S5"),
        ("MiniGrid-MultiRoom-N4-S5-v0", "minigrid:MultiRoom-N4-S5-v0"),
        ("gymnax:CartPole-v1", "gymnax:CartPole-v1"),
        ("brax:halfcheetah", "brax:halfcheetah"),
        ("cheetah_run_sparse", "dmc:cheetah_run_sparse"),
        ("dmc:humanoid_CMU_run", "dmc:humanoid_CMU_run"),
    ],
)
def test_canonical(task, expected):
    assert registry.canonical(task) == expected
    assert registry.canonical(expected) == expected


@pytest.mark.parametrize(
    ("task", "shape", "max_agent_steps"),
    [
        ("empty_16x16", (7, 7, 3), 4 * 16**2),
        ("doorkey_6x6", (7, 7, 3), 10 * 6**2),
        ("doorkey_8x8", (7, 7, 3), 10 * 8**2),
        ("minigrid:DoorKey-9x9", (7, 7, 3), 10 * 9**2),
        ("minigrid:Empty-3x3", (7, 7, 3), 4 * 3**2),
        ("MiniGrid-Empty-4x4-v0", (7, 7, 3), 4 * 4**2),
        ("gymnax:CartPole-v1", (4,), 500),
    ],
)
def test_make_gives_the_task_that_was_named(task, shape, max_agent_steps):
    spec = registry.make(task).spec
    assert spec.task == registry.canonical(task)
    assert spec.observation_shape == shape
    assert spec.max_agent_steps == max_agent_steps


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("doorkey_8x9", "unknown task 'doorkey_8x9'; did you mean doorkey_8x8"),
        ("CartPole-v1", "did you mean gymnax:CartPole-v1"),
        ("cartpole", "did you mean cartpole_swingup"),
        ("cheetah_run", "did you mean dmc:cheetah_run or cheetah_run_sparse"),
        ("dmc:cheetah_runs", "did you mean cheetah_run"),
        ("brax:halfcheeta", "unknown brax task 'halfcheeta'; did you mean halfcheetah?"),
        ("halfcheetah", "did you mean brax:halfcheetah"),
        ("cheetah_run_sparse", "stepped on the host, not on the device"),
        ("zzzz", "and 'SUITE:' alone lists its tasks"),
        ("brax:", "unknown brax task ''; known: ant, "),
        ("Ant-v4", "did you mean brax:ant"),
        ("ALE/Pong-v5", "did you mean atari:pong"),
        ("PongNoFrameskip-v4", "did you mean atari:pong"),
        ("MinAtar/Breakout-v1", "did you mean gymnax:Breakout-MinAtar"),
        ("", "unknown task ''"),
        ("minigird:DoorKey-6x6", "unknown suite 'minigird'; did you mean minigrid?"),
        ("minigrid:DorKey-6x6", "did you mean DoorKey-6x6"),
        ("minigrid:KeyCorridorS3R4", "did you mean KeyCorridorS3R3"),
        ("MiniGrid-MultiRoom-N6-v1", "did you mean multiroom_n6"),
        ("keycorridor_s7r3", "did you mean keycorridor_s6r3"),
        ("minigrid:DoorKey-4x4", "a whole number of cells from 5 to 128"),
        ("minigrid:Empty-2x2", "a whole number of cells from 3 to 128"),
        ("minigrid:Empty-6x8", "grids are square"),
        ("gymnax:CartPole-v2", "unknown gymnax task 'CartPole-v2'; did you mean CartPole-v1"),
        ("gymnax:", "unknown gymnax task ''"),
    ],
)
def test_an_unknown_task_is_one_sentence_with_the_nearest_names(task, message):
    with pytest.raises(ValueError) as error:
        registry.make(task)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_misspelt_task_leaves_the_devices_open_to_choose():
    code = """
import contextlib
import jax
from re3_jax.envs import registry
for task in ("doorkey_8x9", "gymnax:CartPole-v2", "brax:halfcheeta"):
    with contextlib.suppress(ValueError):
        registry.canonical(task)
jax.config.update("jax_num_cpu_devices", 2)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_the_papers_tasks_and_where_they_run():
    suites = {task: registry.suite(task) for task in registry.PAPER_TASKS}
    assert sorted(suites.values()) == ["atari"] * 4 + ["dmc"] * 15 + ["minigrid"] * 3
    for task, suite in suites.items():
        assert registry.is_host(task) == (suite in ("dmc", "atari"))
        assert registry.suite(registry.canonical(task)) == suite
    assert not registry.is_host("brax:ant")
    with pytest.raises(ValueError, match="unknown task"):
        registry.is_host("cheetah")


@pytest.mark.parametrize(("package", "task"), [("gymnax", "CartPole-v1"), ("brax", "ant")])
def test_without_the_package_the_message_says_what_to_install(monkeypatch, package, task):
    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name == package:
            raise ImportError(f"No module named {name!r}")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"-m pip install {package}=="):
        registry.make(f"{package}:{task}")
    with pytest.raises(ValueError, match="did you mean doorkey_8x8"):
        registry.make("doorkey_8x9")


def test_data_that_gymnax_cannot_fetch_is_one_sentence(monkeypatch):
    def offline(name):
        raise OSError("no network")

    monkeypatch.setattr(gymnax, "make", offline)
    with pytest.raises(ValueError, match="without data that it downloads itself"):
        registry.make("gymnax:CartPole-v1")


def test_continuous_actions_are_stretched_to_gymnaxs_own_bounds():
    space = gymnax.environments.spaces.Box(low=-1.0, high=1.0, shape=(2,))
    space.low, space.high = [0.0, -1.0], [1.0, 3.0]
    seen, to_gymnax = gymnax_adapter._actions("Made-up", space)
    assert (seen.shape, seen.low, seen.high) == ((2,), -1.0, 1.0)
    for action, theirs in ((-1.0, space.low), (1.0, space.high), (0.0, [0.5, 1.0])):
        np.testing.assert_allclose(to_gymnax(np.full(2, action)), theirs)


def test_actions_without_bounds_are_refused():
    space = gymnax.environments.spaces.Box(low=-np.inf, high=1.0, shape=(2,))
    with pytest.raises(ValueError, match="actions without bounds"):
        gymnax_adapter._actions("Made-up", space)
