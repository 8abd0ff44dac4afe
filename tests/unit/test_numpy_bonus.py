"""The NumPy facade: the numbers of the functions behind it, and exact saving."""

import jax
import numpy as np
import pytest

from re3_jax.interop.numpy_bonus import NumpyBonus
from re3_jax.intrinsic import e3b
from re3_jax.intrinsic.base import IntrinsicReward, Step
from tests.numpy_bonuses import (
    CASES,
    LANES,
    TIME,
    batch_of,
    make,
    program,
    rollout,
    start,
    steps,
)
from tests.prediction_tasks import TASKS


@pytest.mark.parametrize(("name", "task"), CASES)
def test_an_off_policy_loop_gets_the_numbers_of_the_functions(name, task):
    facade, (state, stream), paid = make(name, task), start(name, task), False
    for number in range(1, 4):
        step = steps(task, number)
        index = facade.observe(*step)
        state, expected = program(name, "observe")(state, step)
        np.testing.assert_array_equal(index, expected)
        assert facade.agent_steps == number * LANES
        batch = batch_of(step, index, facade.agent_steps)
        reward, info = facade.reward(batch)
        trained = facade.update(batch)
        expected, state, told = program(name, "reward")(state, batch)
        stream, key = jax.random.split(stream)
        state, told_by_update = program(name, "update")(state, batch, key)
        assert reward.dtype == np.float32 and reward.flags.writeable
        paid |= reward.any()
        np.testing.assert_array_equal(reward, expected)
        assert info == {key: float(value) for key, value in told.items()}
        assert trained == {key: float(value) for key, value in told_by_update.items()}
    assert paid == (name != "none")


@pytest.mark.parametrize(("name", "task"), CASES)
def test_an_on_policy_loop_gets_the_numbers_of_the_functions(name, task):
    facade, (state, stream) = make(name, task), start(name, task)
    for number in range(2):
        lanes = rollout(task, 10 * number)
        reward, info = facade.reward_rollout(lanes)
        stream, key = jax.random.split(stream)
        before = np.int32(number * TIME * LANES)
        expected, state, told = program(name, "rollout")(state, lanes, before, key)
        assert reward.shape == (TIME, LANES)
        np.testing.assert_array_equal(reward, expected)
        assert info == {key: float(value) for key, value in told.items()}
    assert name == "none" or reward.any()


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_restored_bonus_goes_on_as_if_it_had_not_stopped(name, task, tmp_path):
    path = tmp_path / "bonus.npz"
    whole = make(name, task)
    whole.reward_rollout(rollout(task, 0))
    whole.save(path)
    # Another seed: nothing of it may remain.
    resumed = make(name, task, seed=6)
    resumed.restore(path)
    assert resumed.agent_steps == whole.agent_steps == TIME * LANES
    for number in (1, 2):
        ours, theirs = (bonus.reward_rollout(rollout(task, number)) for bonus in (resumed, whole))
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1] == theirs[1]
    both = tmp_path / "resumed.npz", tmp_path / "whole.npz"
    resumed.save(both[0]), whole.save(both[1])
    with np.load(both[0]) as ours, np.load(both[1]) as theirs:
        assert ours.files == theirs.files
        for leaf in ours.files:
            np.testing.assert_array_equal(ours[leaf], theirs[leaf])
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        ["bonus.npz", "resumed.npz", "whole.npz"]
    )


def test_a_loop_may_reuse_its_buffers_at_once():
    """This bonus pays the newest observation, which it keeps as it was given."""
    keeps = IntrinsicReward(
        init=lambda key, spec, num_lanes: np.zeros((num_lanes, *spec.observation_shape)),
        observe=lambda state, step: (step.observation, step.action),
        reward=lambda state, batch: (state[batch.bonus_index, 0], state, {}),
        update=lambda state, batch, key: (state, {}),
    )
    bonus, buffer = NumpyBonus(keeps, TASKS["vectors"], LANES), np.ones((LANES, 5), np.float32)
    index = bonus.observe(buffer, np.arange(LANES, dtype=np.int32) % 3)
    buffer[:] = 7.0
    reward, _ = bonus.reward(batch_of(steps("vectors", 0), index, 0))
    np.testing.assert_array_equal(reward, np.ones(LANES))


def test_steps_beyond_int32_count_as_the_last():
    """beta_t is 0 long before."""
    bonus = make("re3", "vectors")
    first, _ = bonus.reward_rollout(rollout("vectors", 0))
    assert first.all()
    bonus._state = bonus._state._replace(agent_steps=np.int64(2**31 - 1))
    for _ in range(2):
        reward, _ = bonus.reward_rollout(rollout("vectors", 0))
        np.testing.assert_array_equal(reward, np.zeros((TIME, LANES)))
    assert bonus.agent_steps == 2**31 - 1 + 2 * TIME * LANES


def test_a_mask_of_lanes_may_be_reused_at_once():
    """JAX may read an array of the caller's when the call is long over."""
    lanes, spec = 4096, TASKS["vectors"]
    config = e3b.E3BConfig(latent_dim=32, hidden_dim=8)
    bonus = NumpyBonus(e3b.from_config(config, lanes), spec, lanes)
    # JAX copies what is not aligned to 64 bytes.
    buffer, still = np.zeros(lanes + 64, bool), np.zeros((1, lanes), bool)
    mask = buffer[-buffer.ctypes.data % 64 :][:lanes]
    observation = np.zeros((1, lanes, *spec.observation_shape), np.float32)
    for _ in range(5):
        bonus.reward_rollout(Step(observation, still, observation, still, still))
        mask[:] = True
        bonus.restart(mask)
        mask[:] = False
        assert np.all(bonus._state.intrinsic.bonus.begins)


def test_the_next_frame_of_another_episode_is_not_paid_for():
    bonus, step = make("icm", "vectors"), steps("vectors", 0)
    index = bonus.observe(*step)
    known = np.array([True, False, True, False])
    batch = batch_of(step, index, LANES)._replace(next_is_known=known)
    reward, _ = bonus.reward(batch)
    state, _ = program("icm", "observe")(start("icm", "vectors")[0], step)
    expected, *_ = program("icm", "reward")(state, batch)
    np.testing.assert_array_equal(reward, expected)
    assert (reward > 0).tolist() == known.tolist()
    with pytest.raises(ValueError, match=r"next_is_known must be bool\[4\]"):
        bonus.reward(batch._replace(next_is_known=known.astype(np.float32)))
