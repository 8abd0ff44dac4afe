"""The device MiniGrid as a `DeviceEnv`: its specification and the contract of `step`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs.base import Discrete
from re3_jax.envs.device import minigrid
from re3_jax.envs.device.minigrid import closed_form, doorkey, empty

LANES = 32


@pytest.mark.parametrize(
    ("task", "max_agent_steps"),
    [("Empty-16x16", 1024), ("DoorKey-6x6", 360), ("DoorKey-8x8", 640)],
)
def test_specification_of_the_papers_tasks(task: str, max_agent_steps: int) -> None:
    spec = minigrid.make(task).spec
    assert spec.task == f"minigrid:{task}"
    assert spec.max_agent_steps == max_agent_steps
    assert spec.observation_shape == (7, 7, 3)
    assert spec.observation_dtype == np.uint8
    assert spec.action_space == Discrete(7)
    assert spec.action_repeat == 1


@pytest.mark.parametrize(
    ("room", "size"), [(empty, 2), (empty, 129), (doorkey, 4), (doorkey, 129), (doorkey, 8.0)]
)
def test_bad_sizes_are_refused_in_one_sentence(room: Any, size: Any) -> None:
    with pytest.raises(ValueError, match="choose") as error:
        room.make(size)
    assert "\n" not in str(error.value)


def test_packed_words_hold_every_field_up_to_the_largest_size() -> None:
    last = closed_form.LARGEST_SIZE - 1
    for agent in [(last, 1, 3, 0, 2), (1, last, 0, 1, 1), (last, last, 2, 1, 0)]:
        record = closed_form.Agent(*jnp.array(agent, jnp.int32))
        assert tuple(map(int, closed_form.unpack_agent(closed_form.pack_agent(record)))) == agent
    for objects in [(last, 1, 2, last), (2, last, last, 1), (last, last, last, last)]:
        record = doorkey.Objects(*jnp.array(objects, jnp.int32))
        assert tuple(map(int, doorkey.unpack_objects(doorkey.pack_objects(record)))) == objects


@pytest.mark.parametrize("task", ["Empty-5x5", "DoorKey-5x5", "LavaGapS5"])
def test_step_resets_in_the_same_step(task: str) -> None:
    env = minigrid.make(task)
    reset, step = jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))
    key = jax.random.key(0)
    state, _ = reset(jax.random.split(key, LANES))
    rng = np.random.default_rng(0)
    ended, fresh_differs = 0, 0
    for t in range(env.spec.max_agent_steps + 20):
        keys = jax.random.split(jax.random.fold_in(key, t), LANES)
        actions = rng.integers(0, 7, LANES).astype(np.int32)
        steps_before = np.asarray(state.agent_steps)
        state, timestep = step(state, actions, keys)
        done = np.asarray(timestep.terminated | timestep.truncated)
        truncated = np.asarray(timestep.truncated)
        np.testing.assert_array_equal(truncated, steps_before + 1 >= env.spec.max_agent_steps)
        np.testing.assert_array_equal(
            np.asarray(state.agent_steps), np.where(done, 0, steps_before + 1)
        )
        observation = np.asarray(timestep.observation)
        final = np.asarray(timestep.final_observation)
        np.testing.assert_array_equal(observation[~done], final[~done])
        if done.any():
            # The next episode starts as `reset` with the step's key would start it.
            fresh_state, fresh = reset(keys)
            np.testing.assert_array_equal(observation[done], np.asarray(fresh)[done])
            for ours, theirs in zip(state, fresh_state, strict=True):
                np.testing.assert_array_equal(np.asarray(ours)[done], np.asarray(theirs)[done])
            ended += int(done.sum())
            fresh_differs += int((observation[done] != final[done]).any((1, 2, 3)).sum())
    assert ended >= LANES
    assert fresh_differs >= LANES // 2


@pytest.mark.parametrize("task", ["Empty-6x6", "DoorKey-6x6", "LavaGapS6"])
def test_batched_compiled_steps_equal_single_eager_ones(task: str) -> None:
    env = minigrid.make(task)
    key = jax.random.key(3)
    keys = jax.random.split(key, 4)
    states, observations = jax.jit(jax.vmap(env.reset))(keys)
    actions = jnp.array([1, 2, 3, 0], jnp.int32)
    stepped = jax.jit(jax.vmap(env.step))(states, actions, keys)
    for lane in (1, 2):
        state, observation = env.reset(keys[lane])
        np.testing.assert_array_equal(observation, observations[lane])
        single = env.step(state, actions[lane], keys[lane])
        for ours, theirs in zip(jax.tree.leaves(single), jax.tree.leaves(stepped), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs[lane])


@pytest.mark.parametrize("task", ["Empty-8x8", "DoorKey-8x8", "FourRooms", "ObstructedMaze-2Q"])
def test_types_do_not_change_under_scan(task: str) -> None:
    env = minigrid.make(task)
    before, observation = jax.eval_shape(env.reset, jax.random.key(0))
    after, timestep = jax.eval_shape(env.step, before, jnp.int32(0), jax.random.key(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), before) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), after
    )
    for image in (observation, timestep.observation, timestep.final_observation):
        assert (image.shape, image.dtype) == (env.spec.observation_shape, jnp.uint8)
    assert (timestep.reward.shape, timestep.reward.dtype) == ((), jnp.float32)
    assert timestep.terminated.dtype == timestep.truncated.dtype == jnp.bool_


def test_different_keys_draw_different_layouts_and_equal_keys_equal_ones() -> None:
    env = minigrid.make("DoorKey-8x8")
    draw = jax.jit(jax.vmap(env.reset))
    keys = jax.random.split(jax.random.key(0), 256)
    first, _ = draw(keys)
    again, _ = draw(keys)
    np.testing.assert_array_equal(first.objects, again.objects)
    assert len(np.unique(np.asarray(first.objects))) > 150


def test_only_grids_number_their_missions() -> None:
    assert minigrid.missions("KeyCorridorS3R3")
    with pytest.raises(ValueError, match="minigrid:DoorKey-8x8 has one mission"):
        minigrid.missions("DoorKey-8x8")
