"""Lanes of a suite from outside: checked, converted and copied; and the walk that checks them."""

import dataclasses
from unittest import mock

import gymnasium
import numpy as np
import pytest

from re3_jax.envs import registry
from re3_jax.envs.base import Discrete, EnvSpec, LaneStep
from re3_jax.envs.checking import check_lanes
from re3_jax.envs.endless import EndlessEpisode
from re3_jax.envs.host.foreign import ForeignLanes
from re3_jax.runs import config, suites
from re3_jax.runs.errors import UsageError

LANES = 3
SPEC = EnvSpec("mine:counter", (2,), np.dtype(np.float32), Discrete(2), 5)


class Counter:
    """Counts the steps of an episode, which ends after five of them, in float64 and in place."""

    def __init__(self):
        self.seen = np.zeros((LANES, 2))

    def reset(self, seeds):
        self.seen[:, 0], self.seen[:, 1] = seeds, 0
        return self.seen

    def send(self, action):
        self.action = action

    def receive(self):
        self.seen[:, 1] += 1
        last, ended = self.seen.copy(), self.seen[:, 1] == 5
        self.seen[ended, 1] = 0
        reward = self.action[:, 0] * 0.5
        return LaneStep(
            self.seen, reward, np.zeros(LANES, bool), ended, last, np.zeros(LANES, bool)
        )

    def close(self):
        self.seen = None


def with_step(change):
    """`Counter`, whose steps are changed."""
    lanes = Counter()
    receive = lanes.receive
    lanes.receive = lambda: change(receive())
    return lanes


def foreign(lanes, error=ValueError):
    return ForeignLanes(lanes, SPEC, LANES, error)


def test_results_are_float32_and_keep_their_values():
    lanes = foreign(Counter())
    first = lanes.reset(np.arange(LANES))
    assert first.dtype == np.float32
    lanes.send(np.ones((LANES, 1), np.int32))
    step = lanes.receive()
    assert step.frame.dtype == step.final_frame.dtype == step.reward.dtype == np.float32
    np.testing.assert_array_equal(step.reward, [0.5] * LANES)
    # The environment has written into the array that it returned first.
    np.testing.assert_array_equal(first[:, 1], [0] * LANES)
    np.testing.assert_array_equal(step.frame[:, 1], [1] * LANES)


def test_what_lanes_need_not_have():
    lanes = foreign(Counter())
    assert not lanes.can_restore and not lanes.lost.any() and lanes.lost.shape == (LANES,)
    given = Counter()
    given.can_restore, given.lost = True, np.array([False, True, False])
    given.get_state, kept = lambda: {"a": np.arange(LANES)}, {}
    given.set_state = kept.update
    lanes = foreign(given)
    lanes.reset(np.arange(LANES))
    lanes.send(np.ones((LANES, 1)))
    lanes.receive()
    assert lanes.can_restore and lanes.lost.tolist() == [False, True, False]
    lanes.set_state(lanes.get_state())
    assert kept["a"].tolist() == [0, 1, 2]
    lanes.close()
    assert given.seen is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda step: tuple(step), "receive of mine:counter returns a tuple: return a .*LaneStep"),
        (lambda step: step._replace(reward=1.0), r"reward of 3 lanes .* float64\[\], where float3"),
        (lambda step: step._replace(frame=step.frame[0]), r"frame .* float64\[2\], where .*\[3, 2"),
        (lambda step: step._replace(terminated=np.zeros(3)), "terminated .* where bool"),
        (lambda step: step._replace(reward=np.array(["a"] * 3)), "reward .* where float32"),
    ],
)
def test_a_wrong_result_is_one_sentence(change, words):
    class Refused(ValueError):
        pass

    lanes = foreign(with_step(change), Refused)
    lanes.reset(np.arange(LANES))
    lanes.send(np.ones((LANES, 1)))
    with pytest.raises(Refused, match=words):
        lanes.receive()


def test_frames_that_are_no_bytes_are_refused():
    spec = EnvSpec("mine:picture", (4, 4, 3), np.dtype(np.uint8), Discrete(2), 5)

    class Picture(Counter):
        def reset(self, seeds):
            return np.zeros((LANES, 4, 4, 3), np.float32)

    with pytest.raises(ValueError, match=r"float32\[3, 4, 4, 3\], where uint8"):
        ForeignLanes(Picture(), spec, LANES).reset(np.arange(LANES))


@pytest.mark.parametrize(
    ("dtype", "of_lanes", "held", "holds"),
    [
        (np.uint8, np.uint16, 300, "uint8"),
        (np.int32, np.int64, 2**31 + 7, "int32"),
        # What JAX makes of it.
        (np.int64, np.int64, 2**33 + 5, "int32"),
    ],
)
def test_whole_numbers_that_the_specification_cannot_hold_are_refused(dtype, of_lanes, held, holds):
    spec = EnvSpec("mine:wide", (2,), np.dtype(dtype), Discrete(2), 5)

    class Wide(Counter):
        def reset(self, seeds):
            return np.full((LANES, 2), held, of_lanes)

    with pytest.raises(ValueError, match=f"mine:wide holds {held}, which {holds} does"):
        ForeignLanes(Wide(), spec, LANES).reset(np.arange(LANES))


def test_numbers_of_states_are_for_the_device():
    with pytest.raises(ValueError, match="mine:counter has num_states, which is for environments"):
        ForeignLanes(Counter(), dataclasses.replace(SPEC, num_states=5), LANES)


def test_lanes_that_would_be_refused_are_not_started():
    spec, make = dataclasses.replace(SPEC, num_states=5), mock.Mock()
    suite = suites.HostSuite("mine", "counter", config.RunConfig, lambda *_: spec, make)
    with pytest.raises(UsageError, match="mine:counter has num_states"):
        suites._foreign(suite, "counter", None, LANES, print)
    make.assert_not_called()


def test_an_episode_longer_than_the_specification_says_is_refused():
    given = with_step(lambda step: step._replace(truncated=step.terminated))
    given.set_state = lambda state: None
    lanes = foreign(given)

    def walk(steps):
        for _ in range(steps):
            lanes.send(np.zeros((LANES, 1), int))
            lanes.receive()

    walk(5)
    lanes.reset(np.arange(LANES))
    walk(5)
    lanes.set_state({})
    walk(5)
    with pytest.raises(EndlessEpisode, match="mine:counter .* than its max_agent_steps of 5: end"):
        walk(1)


def test_a_walk_adds_up_rewards():
    returns = check_lanes(Counter(), SPEC, LANES, num_steps=400)
    assert returns.shape == (LANES,)
    # Half of the actions pay 0.5.
    np.testing.assert_allclose(returns, 100, atol=20)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda step: step._replace(reward=step.reward * np.nan),
            "a reward of mine:counter is NaN",
        ),
        (lambda step: step._replace(final_frame=step.frame + 1), "final_frame .* ended no episode"),
        (lambda step: step._replace(final_frame=step.frame), "frame is always the same as final_"),
        (
            lambda step: step._replace(truncated=step.terminated, final_frame=step.frame),
            "goes on for more than its max_agent_steps of 5",
        ),
    ],
)
def test_a_walk_finds(change, words):
    with pytest.raises(ValueError, match=words):
        check_lanes(with_step(change), SPEC, LANES, num_steps=30)


def test_a_walk_finds_episodes_that_seeds_do_not_decide():
    class Other(Counter):
        begun = 0

        def reset(self, seeds):
            self.begun += 1
            return super().reset(np.asarray(seeds) + self.begun)

    with pytest.raises(ValueError, match="reset of mine:counter with the same seeds begins other"):
        check_lanes(Other(), SPEC, LANES)


@pytest.fixture(scope="module")
def plugin_gymnasium():
    """The example, without the suite that it registers for the whole process."""
    registries = registry.SUITES, suites.SUITES, config.OF_SUITES
    before = [dict(one) for one in registries]
    from examples import plugin_gymnasium

    for one, kept in zip(registries, before, strict=True):
        one.clear()
        one.update(kept)
    return plugin_gymnasium


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0"])
def test_the_example_of_gymnasium_keeps_the_contract(plugin_gymnasium, task):
    options = plugin_gymnasium.GymnasiumConfig()
    spec = plugin_gymnasium.spec(task, options)
    lanes = plugin_gymnasium.Lanes(task, options, LANES, print)
    check_lanes(lanes, spec, LANES, num_steps=450)
    lanes.close()


def test_the_example_steps_as_gymnasium_does(plugin_gymnasium):
    """Farama's own loop over one environment: the same episodes, whose last frames are kept."""
    lanes = plugin_gymnasium.Lanes("CartPole-v1", plugin_gymnasium.GymnasiumConfig(), 1, print)
    alone = gymnasium.make("CartPole-v1")
    random = np.random.default_rng(0)
    np.testing.assert_array_equal(lanes.reset(np.array([7]))[0], alone.reset(seed=7)[0])
    ends = 0
    for _ in range(200):
        action = random.integers(2)
        lanes.send(np.array([[action]]))
        step = lanes.receive()
        seen, reward, terminated, truncated, _ = alone.step(action)
        np.testing.assert_array_equal(step.final_frame[0], seen)
        assert (step.reward[0], step.terminated[0], step.truncated[0]) == (
            reward,
            terminated,
            truncated,
        )
        if terminated or truncated:
            ends += 1
            seen, _ = alone.reset()
        np.testing.assert_array_equal(step.frame[0], seen)
    assert ends > 3


def test_the_example_scales_actions_to_gymnasiums_bounds(plugin_gymnasium):
    """Pendulum's torque is from -2 to 2, an agent's action from -1 to 1."""
    options = plugin_gymnasium.GymnasiumConfig()
    spec = plugin_gymnasium.spec("Pendulum-v1", options)
    assert (spec.action_space.low, spec.action_space.high) == (-1, 1)
    assert spec.max_agent_steps == 200 and not spec.is_image
    lanes = plugin_gymnasium.Lanes("Pendulum-v1", options, 1, print)
    alone = gymnasium.make("Pendulum-v1")
    lanes.reset(np.array([3]))
    alone.reset(seed=3)
    lanes.send(np.array([[0.5]], np.float32))
    step = lanes.receive()
    seen, reward, *_ = alone.step(np.array([1.0], np.float32))
    np.testing.assert_allclose(step.frame[0], seen, rtol=1e-6)
    np.testing.assert_allclose(step.reward[0], reward, rtol=1e-6)


def test_a_spec_of_gymnasium_is_read_off_its_spaces(plugin_gymnasium):
    spec = plugin_gymnasium.spec("CartPole-v1", plugin_gymnasium.GymnasiumConfig())
    assert dataclasses.asdict(spec) | {"task": ""} == dataclasses.asdict(
        EnvSpec("", (4,), np.dtype(np.float32), Discrete(2), 500)
    )
