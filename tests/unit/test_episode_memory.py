"""Stores of episodic bonuses: the memory of each lane's episode, and the ring of stored values."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.replay import episode_memory, value_ring

LANES, CAPACITY = 3, 5


def test_a_memory_holds_the_newest_rows_of_the_present_episode():
    """Against a deque for each lane; episodes are shorter and longer than the capacity."""
    rng = np.random.default_rng(0)
    memory = episode_memory.init(LANES, CAPACITY, (2,))
    model = [deque(maxlen=CAPACITY) for _ in range(LANES)]

    @jax.jit
    def step(memory, rows, ended):
        memory = episode_memory.add(memory, rows)
        return episode_memory.clear(memory, ended), memory

    lengths = set()
    for _ in range(60):
        rows, ended = rng.normal(size=(LANES, 2)).astype(np.float32), rng.random(LANES) < 0.15
        memory, before = step(memory, rows, ended)
        held = np.asarray(episode_memory.is_stored(before))
        for lane, known in enumerate(model):
            known.append(tuple(rows[lane]))
            lengths.add(len(known))
            found = {tuple(row) for row in np.asarray(before.rows)[lane][held[lane]]}
            assert found == set(known)
            if ended[lane]:
                known.clear()
    assert lengths == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("length", [1, 4, 8])
def test_a_rollout_is_added_as_its_steps_would_be(length):
    """Against a deque for each lane; rollouts are shorter and longer than the capacity."""
    rng, number = np.random.default_rng(1), 0
    memory = episode_memory.init(LANES, CAPACITY, (), jnp.int32)
    model = [deque(maxlen=CAPACITY) for _ in range(LANES)]
    added = np.zeros(LANES, int)
    for _ in range(30):
        rows = number + np.arange(length * LANES, dtype=np.int32).reshape(length, LANES)
        number += rows.size
        ended = rng.random((length, LANES)) < 0.12
        first = episode_memory.first_steps(jnp.asarray(ended))
        for t in range(length):
            before = episode_memory.num_before(memory, jnp.int32(t), first[t])
            stored = episode_memory.is_stored_at(memory, jnp.int32(t), first[t], length)
            of_memory, of_rollout = map(np.asarray, stored)
            np.testing.assert_array_equal(before, added)
            for lane, known in enumerate(model):
                old = np.asarray(memory.rows)[lane][of_memory[lane]]
                assert sorted([*old, *rows[:, lane][of_rollout[lane]]]) == [*known]
                known.append(rows[t, lane])
                added[lane] += 1
                if ended[t, lane]:
                    known.clear()
                    added[lane] = 0
        memory = episode_memory.add_rollout(memory, jnp.asarray(rows), jnp.asarray(ended))
        held = np.asarray(episode_memory.is_stored(memory))
        for lane, known in enumerate(model):
            assert sorted(np.asarray(memory.rows)[lane][held[lane]]) == [*known]


def test_values_are_found_at_their_places_until_they_are_overwritten():
    ring, add = value_ring.init(7, jnp.int32), jax.jit(value_ring.add)
    model = np.zeros(7, int)
    for number in range(6):
        values = np.arange(3) + 10 * number
        ring, index = add(ring, jnp.asarray(values))
        model[[(3 * number + i) % 7 for i in range(3)]] = values
        np.testing.assert_array_equal(ring.values[index], values)
    np.testing.assert_array_equal(ring.values, model)


def test_sizes_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="a ring of 0 values cannot hold anything"):
        value_ring.init(0)
    with pytest.raises(ValueError, match="a memory of 0 rows cannot hold anything"):
        episode_memory.init(1, 0)
    with pytest.raises(ValueError, match="9 values do not fit a ring of 7"):
        value_ring.add(value_ring.init(7), jnp.zeros(9))
