"""What the NumPy facade refuses, and what it asks for instead."""

import dataclasses

import jax
import numpy as np
import pytest

from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.intrinsic import counts
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from tests.numpy_bonuses import (
    BONUSES,
    ENTROPY,
    LANES,
    TIME,
    batch_of,
    make,
    rollout,
    steps,
)
from tests.prediction_tasks import TASKS


def test_a_bad_file_is_refused_and_the_state_stays(tmp_path):
    bonus, path = make("re3", "vectors"), tmp_path / "bonus.npz"
    bonus.reward_rollout(rollout("vectors", 0))
    bonus.save(path)
    whole = path.read_bytes()
    other = make("re3 ensemble", "vectors")
    with pytest.raises(ValueError, match="does not hold a state of this bonus: restore it with"):
        other.restore(path)
    with pytest.raises(ValueError, match="cannot read the state of a bonus from .*none.npz"):
        bonus.restore(tmp_path / "none.npz")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damaged in (whole[:-200], bytes(flipped), b"text"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot read the state of a bonus from"):
            bonus.restore(path)
    np.save(path.with_suffix(".npy"), np.ones(3))
    with pytest.raises(ValueError, match="it is not an .npz file that save wrote"):
        bonus.restore(path.with_suffix(".npy"))
    path.write_bytes(whole)
    expected, _ = bonus.reward_rollout(rollout("vectors", 1))
    bonus.restore(path)
    np.testing.assert_array_equal(bonus.reward_rollout(rollout("vectors", 1))[0], expected)


def test_arrays_are_cast_within_their_kind_and_refused_otherwise():
    bonus, twin = make("rnd", "vectors"), make("rnd", "vectors")
    step = steps("vectors", 0)
    wide = Step(step.observation.astype(np.float64), step.action.astype(np.int64), *step[2:])
    np.testing.assert_array_equal(bonus.observe(*wide), twin.observe(*step))
    batches = (batch_of(one, np.zeros(LANES, np.int64), 4) for one in (wide, step))
    np.testing.assert_array_equal(bonus.reward(next(batches))[0], twin.reward(next(batches))[0])
    holed = step.observation.copy()
    holed[2:, 1] = np.nan
    refused = [
        (dict(observation=step.observation[:, :3]), r"observation must be float32\[4, 5\], but it"),
        (dict(action=np.ones(LANES, np.float32)), r"action must be int32\[4\], but it is float32"),
        (dict(next_observation=step.observation[:2]), r"next_observation must be .* float32\[2, 5"),
        (dict(terminated=np.zeros(LANES, np.float32)), r"terminated must be bool\[4\], but it is"),
        (dict(truncated=np.zeros((LANES, 1), bool)), r"truncated must be bool\[4\], but it is boo"),
        (dict(observation=holed), r"observation holds NaN or infinity, first at \[2, 1\]"),
        (dict(value=np.full(LANES, np.inf)), r"value holds NaN or infinity, first at \[0\]"),
        (dict(action=np.array([0, 1, -1, 0])), "action holds -1: give numbers from 0 to "),
        (dict(action=np.array([0, 99, 1, 0])), "action holds 99: give numbers from 0 to "),
    ]
    for changed, words in refused:
        with pytest.raises(ValueError, match=words):
            bonus.observe(**{**step._asdict(), **changed})
    with pytest.raises(ValueError, match=r"\(a rollout leads with time and lane\), but"):
        bonus.reward_rollout(rollout("vectors", 0)._replace(observation=np.zeros((TIME, LANES, 3))))
    with pytest.raises(ValueError, match=r"bonus_index must be int32\[4\]"):
        bonus.reward(batch_of(step, np.zeros(3, np.int32), 4))
    assert bonus.agent_steps == LANES


def test_a_bonus_that_stores_nothing_needs_no_index():
    bonus, twin, step = make("rnd", "vectors"), make("rnd", "vectors"), steps("vectors", 0)
    without = batch_of(step, np.zeros(LANES, np.int32), 4)._replace(bonus_index=None)
    expected = twin.reward(batch_of(step, np.zeros(LANES, np.int32), 4))[0]
    np.testing.assert_array_equal(bonus.reward(without)[0], expected)


@pytest.mark.parametrize("name", ["re3", "vcse", "e3b", "noveld", "ngu", "sum"])
def test_a_bonus_that_stores_something_needs_the_index(name):
    bonus, step = make(name, "vectors"), steps("vectors", 0)
    bonus.observe(*step)
    batch = batch_of(step, np.zeros(LANES, np.int32), 4)._replace(bonus_index=None)
    with pytest.raises(ValueError, match="this bonus needs bonus_index of every step"):
        bonus.reward(batch)


@pytest.mark.parametrize("wrong", [-1, LANES, 10**6])
def test_an_index_that_was_never_returned_is_refused(wrong, tmp_path):
    bonus, step = make("re3", "vectors"), steps("vectors", 0)
    index = bonus.observe(*step)
    bonus.reward(batch_of(step, index, 4))
    index[2] = wrong
    with pytest.raises(ValueError, match=f"bonus_index holds {wrong}: give numbers from 0 to 3"):
        bonus.reward(batch_of(step, index, 4))
    bonus.save(tmp_path / "bonus")
    again = make("re3", "vectors")
    again.restore(tmp_path / "bonus")
    again.reward(batch_of(step, np.arange(LANES, dtype=np.int32), 4))
    with pytest.raises(ValueError, match=f"bonus_index holds {wrong}: give numbers from 0 to 3"):
        again.reward(batch_of(step, index, 4))


def test_whole_numbers_that_jax_does_not_have_are_refused():
    """They would wrap: 2^32 is 0 in 32 bits."""
    spec = EnvSpec("tape", (1,), np.dtype(np.int64), Discrete(2), max_agent_steps=9)
    bonus = NumpyBonus(BONUSES["re3"](), spec, 2)
    bonus.observe(np.array([[1], [2**31 - 1]]))
    with pytest.raises(ValueError, match="holds whole numbers that int32 does not: make them real"):
        bonus.observe(np.array([[1], [2**32]]))
    narrow = NumpyBonus(
        BONUSES["re3"](), dataclasses.replace(spec, observation_dtype=np.dtype(np.int16)), 2
    )
    with pytest.raises(ValueError, match="observation holds whole numbers that int16 does not"):
        narrow.observe(np.array([[1], [2**16 + 1]]))
    with pytest.raises(ValueError, match="action holds whole numbers that int32 does not"):
        bonus.observe(np.array([[1], [2]]), np.array([0, 2**32]))


def test_only_a_bonus_that_remembers_episodes_needs_every_lane():
    step = jax.tree.map(lambda leaf: leaf[:3], steps("vectors", 0))
    np.testing.assert_array_equal(make("re3", "vectors").observe(*step), [0, 1, 2])
    with pytest.raises(ValueError, match=r"observation must be float32\[4, 5\], but .*\[3, 5\]"):
        make("episodic", "vectors").observe(*step)


@pytest.mark.parametrize("num_lanes", [0, 2.0, "2", None, True])
def test_a_number_of_lanes_that_is_none_is_refused(num_lanes):
    with pytest.raises(ValueError, match=f"num_lanes must be .* it is {num_lanes!r}"):
        NumpyBonus(BONUSES["re3"](), TASKS["vectors"], num_lanes)


def test_a_loop_without_steps_is_refused():
    bonus = make("re3", "vectors")
    with pytest.raises(ValueError, match="a rollout of 0 steps of 4 lanes has nothing to reward"):
        bonus.reward_rollout(Step(np.zeros((0, LANES, 5))))
    with pytest.raises(ValueError, match=r"of shape \(8,\) have no axes for time and lane"):
        bonus.reward_rollout(Step(np.zeros(8)))
    assert bonus.agent_steps == 0


def test_options_and_whole_steps_are_told_what_to_give():
    with pytest.raises(TypeError, match="bonus is a RE3Config: give an IntrinsicReward"):
        NumpyBonus(ENTROPY, TASKS["vectors"], LANES)
    with pytest.raises(TypeError, match=r"give its fields, observe\(\*step\)"):
        make("rnd", "vectors").observe(steps("vectors", 0))
    with pytest.raises(TypeError, match=r"not a ndarray: give Step\(observation, \.\.\.\)"):
        make("rnd", "vectors").reward_rollout(np.zeros((TIME, LANES, 5)))


def test_lanes_to_restart_are_bool():
    bonus = make("re3", "vectors")
    for lanes in ([0] * LANES, [True]):
        with pytest.raises(ValueError, match=rf"give bool \[{LANES}\]"):
            bonus.restart(lanes)


def test_a_state_that_the_task_does_not_number_is_refused():
    spec = dataclasses.replace(TASKS["vectors"], num_states=4)
    bonus = NumpyBonus(counts.from_config(counts.CountsConfig(), 64), spec, LANES)
    step = steps("vectors", 0)._replace(state_number=np.array([0, 3, 3, 1]))
    bonus.observe(*step)
    for number in (-1, 4):
        with pytest.raises(ValueError, match=f"state_number holds {number}: give numbers from 0"):
            bonus.observe(*step._replace(state_number=np.array([0, number, 1, 1])))


def test_a_missing_field_is_named():
    bonus, step = make("icm", "vectors"), steps("vectors", 0)
    index = bonus.observe(*step[:3])
    for name in ("action", "next_observation"):
        batch = batch_of(step, index, 0)._replace(**{name: None})
        with pytest.raises(ValueError, match=f"this bonus needs {name} of every step"):
            bonus.reward(batch)


@pytest.mark.parametrize("name", ["re3", "rnd"])
def test_a_batch_of_nothing_is_refused(name):
    bonus, step = make(name, "vectors"), steps("vectors", 0)
    bonus.observe(*step)
    empty = jax.tree.map(lambda leaf: leaf[:0], batch_of(step, np.zeros(LANES, np.int32), 4)[:4])
    for use in (bonus.reward, bonus.update):
        with pytest.raises(ValueError, match="the batch has no transition"):
            use(IntrinsicBatch(*empty, np.int32(4)))
