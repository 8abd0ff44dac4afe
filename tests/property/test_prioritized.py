"""A prioritised replay gives the same transitions as a plain Python list of steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from re3_jax.replay import prioritized, sum_tree

ROWS, LANES, GAMMA = 12, 2, 0.9


@functools.cache
def programs(n, stack):
    add = jax.jit(functools.partial(prioritized.add, n=n, stack=stack))
    sample = functools.partial(prioritized.sample, n=n, stack=stack, gamma=GAMMA)
    return add, jax.jit(sample, static_argnums=2)


def empty(n, stack, rows=ROWS):
    return prioritized.init(rows, LANES, (2,), jnp.uint8, n=n, stack=stack)


def play(rng, num_steps, end_probability):
    """Steps of all lanes; all frames differ, and none is zero."""
    shape = (num_steps, LANES)
    kind = rng.random(shape)
    terminated = kind < end_probability
    truncated = ~terminated & (kind < 1.5 * end_probability)
    number = 1 + np.arange(num_steps * LANES).reshape(shape)
    return {
        "frame": np.stack([number % 251 + 1, number // 251 + 1], axis=-1).astype(np.uint8),
        "action": rng.integers(0, 5, shape).astype(np.int32),
        "reward": rng.normal(size=shape).astype(np.float32),
        "terminated": terminated,
        "truncated": truncated,
        "bonus_index": 3 * number.astype(np.int32),
    }


def stack_at(steps, t, lane, stack):
    """Frames up to step t, with zeros for frames before its episode."""
    out = np.zeros((stack, 2), np.uint8)
    for back in range(stack):
        out[stack - 1 - back] = steps["frame"][t - back, lane]
        before = t - back - 1
        if before < 0 or steps["terminated"][before, lane] or steps["truncated"][before, lane]:
            break
    return out.reshape(-1)


def transition(steps, t, lane, n, stack):
    """The transition that begins at step t of a lane; None if it may not be drawn."""
    reward, last = 0.0, len(steps["reward"]) - 1
    for k in range(n):
        if t + k > last:
            return None
        reward += GAMMA**k * steps["reward"][t + k, lane]
        if steps["truncated"][t + k, lane]:
            return None
        if steps["terminated"][t + k, lane]:
            whole = t + n <= last
            return (reward, 0.0, None) if whole else None
    if t + n > last:
        return None
    return reward, GAMMA**n, stack_at(steps, t + n, lane, stack)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.sampled_from([(1, 1), (3, 1), (3, 4), (2, 2)]),
    num_steps=st.integers(1, 40),
    end_probability=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_a_list_of_steps(sizes, num_steps, end_probability, seed):
    n, stack = sizes
    add, sample = programs(n, stack)
    rng = np.random.default_rng(seed)
    steps, replay = play(rng, num_steps, end_probability), empty(n, stack)
    for t in range(num_steps):
        replay = add(replay, **{name: values[t] for name, values in steps.items()})
    oldest = max(0, num_steps - ROWS)
    # Until the ring is full, no frame that the oldest stack needs is overwritten.
    first = oldest + (stack - 1 if oldest else 0)
    expected = {
        (t % ROWS) * LANES + lane: (t, lane, found)
        for t in range(first, num_steps)
        for lane in range(LANES)
        if (found := transition(steps, t, lane, n, stack)) is not None
    }
    priorities = np.asarray(replay.tree.levels[0])
    assert set(np.flatnonzero(priorities)) == set(expected)
    assert bool(prioritized.can_sample(replay)) == bool(expected)
    batch = sample(jax.random.key(seed % 1000), replay, 16)
    if not expected:
        assert not np.any(batch.slot) and np.isnan(batch.probability).all()
        return
    np.testing.assert_allclose(batch.probability, 1 / len(expected), rtol=1e-6)
    for i, index in enumerate(np.asarray(batch.slot)):
        t, lane, (reward, discount, following) = expected[int(index)]
        np.testing.assert_array_equal(batch.observation[i], stack_at(steps, t, lane, stack))
        assert int(batch.action[i]) == steps["action"][t, lane]
        assert int(batch.bonus_index[i]) == steps["bonus_index"][t, lane]
        np.testing.assert_allclose(batch.reward[i], reward, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(batch.discount[i], discount, rtol=1e-6)
        if following is not None:
            np.testing.assert_array_equal(batch.next_observation[i], following)
        assert batch.ended[i] == steps["terminated"][t, lane]
        if not batch.ended[i]:
            after = stack_at(steps, t + 1, lane, stack)
            np.testing.assert_array_equal(batch.following[i], after)


def kaixhins_nonterminal(terminated, t, n):
    """Its mask: `nonterminal` of step t + n, where steps after the episode's end are blank."""
    return not any(terminated[t : t + n]) and not terminated[t + n]


def test_kaixhins_mask_looks_one_step_too_far():
    """An episode that ends with step t + n goes on at o_{t+n}, which the n steps lead to."""
    n, steps = 3, 10
    add, sample = programs(n, 1)
    ends_at = 6
    terminated, replay = np.arange(steps) == ends_at, empty(n, 1)
    no, zeros = jnp.zeros(LANES, bool), jnp.zeros(LANES, jnp.int32)
    for t in range(steps):
        frame = jnp.full((LANES, 2), t, jnp.uint8)
        replay = add(replay, frame, zeros, zeros, jnp.full(LANES, terminated[t]), no, zeros)
    batch = sample(jax.random.key(0), replay, 64)
    found = dict(zip(np.asarray(batch.slot) // LANES, np.asarray(batch.discount) > 0, strict=True))
    assert sorted(found) == list(range(steps - n))
    theirs = {t: kaixhins_nonterminal(terminated, t, n) for t in found}
    assert {t for t in found if found[t] != theirs[t]} == {ends_at - n}
    assert found == {t: not terminated[t : t + n].any() for t in found}


def test_priorities_weights_and_the_priority_of_what_is_new():
    """Against NumPy: P(i) = p_i / sum, w_i = (N P(i))^-beta over the largest."""
    add, sample = programs(1, 1)
    steps, replay = play(np.random.default_rng(0), 6, 0.0), empty(1, 1)
    for t in range(5):
        replay = add(replay, **{name: values[t] for name, values in steps.items()})
    index = jnp.array([0, 3, 5])
    replay = prioritized.update_priorities(replay, index, jnp.array([0.25, 4.0, 0.5]))
    replay = add(replay, **{name: values[5] for name, values in steps.items()})
    model = np.array([0.25, 1, 1, 4, 1, 0.5, 1, 1, 4, 4])
    np.testing.assert_array_equal(replay.tree.levels[0][:10], model)
    batch = sample(jax.random.key(0), replay, 64)
    probability = model[np.asarray(batch.slot)] / model.sum()
    np.testing.assert_allclose(batch.probability, probability, rtol=1e-6)
    for beta in (0.0, 0.4, 1.0):
        weights = (len(model) * probability) ** -beta
        np.testing.assert_allclose(
            prioritized.importance_weights(batch.probability, beta),
            weights / weights.max(),
            rtol=1e-5,
        )


def test_what_is_new_has_the_largest_priority_of_all_batches():
    """And not that of the last one."""
    add, _ = programs(1, 1)
    steps, replay = play(np.random.default_rng(0), 4, 0.0), empty(1, 1)
    for t in range(3):
        replay = add(replay, **{name: values[t] for name, values in steps.items()})
    for priority in (4.0, 0.5):
        replay = prioritized.update_priorities(replay, jnp.array([0]), jnp.array([priority]))
    replay = add(replay, **{name: values[3] for name, values in steps.items()})
    np.testing.assert_array_equal(replay.tree.levels[0][:6], [0.5, 1, 1, 1, 4, 4])


def test_a_cut_truncates_no_episode_that_has_ended():
    """The lane whose task had ended keeps its transition; that of the other one is never drawn."""
    assert LANES == 2
    add, _ = programs(1, 1)
    steps, replay = play(np.random.default_rng(0), 2, 0.0), empty(1, 1)
    steps["terminated"][0] = [True, False]
    replay = add(replay, **{name: values[0] for name, values in steps.items()})
    replay = prioritized.cut(replay)
    np.testing.assert_array_equal(replay.truncated[0], [False, True])
    replay = add(replay, **{name: values[1] for name, values in steps.items()})
    np.testing.assert_array_equal(np.flatnonzero(replay.tree.levels[0]), [0])


def test_insertion_into_a_donated_replay_copies_no_frames():
    replay = prioritized.init(2000, 4, (84, 84), jnp.uint8, n=3, stack=4)
    add = jax.jit(functools.partial(prioritized.add, n=3, stack=4), donate_argnums=0)
    step = {
        "frame": np.ones((4, 84, 84), np.uint8),
        "action": np.zeros(4, np.int32),
        "reward": np.zeros(4, np.float32),
        "terminated": np.zeros(4, bool),
        "truncated": np.zeros(4, bool),
        "bonus_index": np.zeros(4, np.int32),
    }
    assert add.lower(replay, **step).compile().memory_analysis().temp_size_in_bytes < 200_000
    pointer = replay.frames.array.unsafe_buffer_pointer()
    assert add(replay, **step).frames.array.unsafe_buffer_pointer() == pointer


def test_one_replay_per_seed():
    add, sample = programs(3, 4)
    made = []
    for seed in range(2):
        steps, replay = play(np.random.default_rng(seed), 20, 0.1), empty(3, 4)
        for t in range(20):
            replay = add(replay, **{name: values[t] for name, values in steps.items()})
        made.append(replay)
    keys = jax.random.split(jax.random.key(0), 2)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)
    together = jax.vmap(lambda key, replay: sample(key, replay, 8))(keys, stacked)
    for seed, replay in enumerate(made):
        alone = sample(keys[seed], replay, 8)
        jax.tree.map(
            lambda both, one, seed=seed: np.testing.assert_allclose(both[seed], one, rtol=1e-6),
            together,
            alone,
        )


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"rows": 0, "lanes": 1, "n": 1, "stack": 1}, "at least 1"),
        ({"rows": 6, "lanes": 1, "n": 3, "stack": 4}, "at least 7"),
    ],
)
def test_sizes_without_room_are_refused(sizes, words):
    with pytest.raises(ValueError, match=words):
        prioritized.init(frame_shape=(2,), dtype=jnp.uint8, **sizes)


def test_large_replays_are_drawn_from_everywhere():
    """Where a draw ends in its group of leaves does not depend on the group."""
    rows = 2**16
    replay = prioritized.init(rows, 1, (1,), jnp.uint8, n=1, stack=1)
    tree = sum_tree.update(replay.tree, jnp.arange(rows), jnp.ones(rows))
    replay = replay._replace(tree=tree)
    draw = jax.jit(
        lambda key, replay: prioritized.sample(key, replay, 16, n=1, stack=1, gamma=1.0).slot
    )
    drawn = jax.vmap(draw, (0, None))(jax.random.split(jax.random.key(0), 1024), replay)
    # 16,384 uniform draws of 65,536 rows find 14,500 of them.
    assert len(np.unique(drawn)) > 14_000


def test_the_end_of_the_task_is_stored_where_a_time_limit_comes_with_it():
    """As in the last step of DeepSea."""
    replay = prioritized.init(12, 2, (2,), jnp.uint8, n=1, stack=1)
    both, no = jnp.array([True, False]), jnp.zeros(2, bool)
    frame, zeros = jnp.zeros((2, 2), jnp.uint8), jnp.zeros(2, jnp.int32)
    for ends in (both, no):
        replay = prioritized.add(
            replay, frame, zeros, jnp.zeros(2), ends, ends, zeros, n=1, stack=1
        )
    np.testing.assert_array_equal(np.flatnonzero(replay.tree.levels[0]), [0, 1])
