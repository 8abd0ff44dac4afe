"""The replay of flat observations against a plain list."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.replay import transition_ring
from tests.equal import equal_arrays

CAPACITY, BATCH = 11, 64
SPEC = EnvSpec("test:box", (3,), np.dtype(np.float32), Box((2,), -1.0, 1.0), 10)

add = jax.jit(transition_ring.add)
sample = jax.jit(transition_ring.sample, static_argnums=2)


def transitions(rng, lanes):
    """Arguments of `add`."""
    shapes = (lanes, 3), (lanes, 2), (lanes,), (lanes,), (lanes, 3)
    numbers = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    return [*numbers, rng.integers(0, 2**31, lanes, dtype=np.int32)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from([1, 2, 5, CAPACITY]), max_size=15))
def test_equals_a_list_of_transitions(seed, batches):
    rng, ring = np.random.default_rng(seed), transition_ring.init(CAPACITY, SPEC)
    kept = deque(maxlen=CAPACITY)
    for lanes in batches:
        given = transitions(rng, lanes)
        ring = add(ring, *given)
        kept.extend(zip(*given, strict=True))
    # All transitions have different bonus indices.
    last = {int(index): whole for *whole, index in kept}
    assert len(last) == len(kept) == ring.num_valid
    found, index = sample(jax.random.key(seed), ring, BATCH)
    found = jax.tree.map(np.asarray, found)
    assert not found.bonus.any()
    names = "observation", "action", "reward", "discount", "next_observation"
    for i, number in enumerate(index.tolist() if last else []):
        for name, theirs in zip(names, last[number], strict=True):
            np.testing.assert_array_equal(getattr(found, name)[i], theirs)
    if not last:
        assert not any(leaf.any() for leaf in jax.tree.leaves(found))


def test_draws_are_uniform_over_what_is_written():
    """A correct sampler fails for one key in a million; the key is fixed."""
    rng, ring = np.random.default_rng(0), transition_ring.init(CAPACITY, SPEC)
    for expected in (4, 8, CAPACITY, CAPACITY):
        ring = add(ring, *transitions(rng, 4))
        ring = ring._replace(bonus_index=jnp.arange(CAPACITY))
        counts = np.bincount(sample(jax.random.key(1), ring, 100_000)[1], minlength=CAPACITY)
        assert not counts[expected:].any()
        assert stats.chisquare(counts[:expected]).pvalue > 1e-6


def test_vmapped_equals_one_by_one():
    rng, ring = np.random.default_rng(0), transition_ring.init(CAPACITY, SPEC)
    single = [add(ring, *transitions(rng, lanes)) for lanes in (2, 9, 11)]
    batched = jax.tree.map(lambda *leaves: jnp.stack(leaves), *single)
    given = [transitions(rng, 4) for _ in single]
    keys = jax.random.split(jax.random.key(0), 3)
    ours = jax.jit(jax.vmap(transition_ring.add))(batched, *map(np.stack, zip(*given, strict=True)))
    drawn = jax.jit(jax.vmap(lambda key, ring: transition_ring.sample(key, ring, 9)))(keys, ours)
    theirs = [add(ring, *words) for ring, words in zip(single, given, strict=True)]
    one_by_one = [sample(key, ring, 9) for key, ring in zip(keys, theirs, strict=True)]
    for found, expected in ((ours, theirs), (drawn, one_by_one)):
        expected = jax.tree.map(lambda *leaves: np.stack(leaves), *expected)
        jax.tree.map(equal_arrays, found, expected)


@pytest.mark.parametrize("seeds", [None, 3])
def test_insertion_does_not_copy_the_ring(seeds):
    """XLA writes over the donated ring; a copy would be temporary memory of its size."""
    words = (transition_ring.init(20_000, SPEC), *transitions(np.random.default_rng(0), 4))
    insert = transition_ring.add
    if seeds:
        words = jax.tree.map(lambda leaf: jnp.stack([leaf] * seeds), words)
        insert = jax.vmap(insert)
    size = sum(leaf.nbytes for leaf in words[0])
    memory = jax.jit(insert, donate_argnums=0).lower(*words).compile().memory_analysis()
    assert memory.alias_size_in_bytes >= size
    assert memory.temp_size_in_bytes < size / 4


def test_discrete_actions_and_other_dtypes():
    spec = EnvSpec("test:grid", (2, 2), np.dtype(np.uint8), Discrete(4), 10)
    ring = transition_ring.init(3, spec)
    images = np.arange(4, dtype=np.uint8).reshape(1, 2, 2)
    ring = add(ring, images, jnp.array([3]), jnp.ones(1), jnp.ones(1), images + 1, jnp.array([7]))
    found, index = sample(jax.random.key(0), ring, 2)
    assert index.tolist() == [7, 7]
    assert found.observation.dtype == jnp.uint8 and found.action.dtype == jnp.int32
    np.testing.assert_array_equal(found.next_observation[1], images[0] + 1)
    assert found.action.tolist() == [3, 3]


def test_impossible_sizes_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        transition_ring.init(0, SPEC)
    with pytest.raises(ValueError, match="does not fit"):
        add(transition_ring.init(3, SPEC), *transitions(np.random.default_rng(0), 4))
