"""A sum tree draws the same leaves as NumPy's cumulative sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from re3_jax.replay import sum_tree
from tests.equal import equal_arrays

update = jax.jit(sum_tree.update)
find_within = jax.jit(sum_tree.find)


def find(tree, shares):
    """The leaves at shares that say all, as those of a small tree do."""
    return find_within(tree, shares, jnp.zeros_like(shares))


def check_sums(tree):
    for below, above in zip(tree.levels, tree.levels[1:], strict=False):
        sums = np.asarray(below).reshape(-1, sum_tree.CHILDREN).sum(axis=1)
        np.testing.assert_allclose(above[: len(sums)], sums, rtol=1e-6)
        assert (np.asarray(above)[len(sums) :] == 0).all()


@settings(max_examples=40, deadline=None)
@given(
    capacity=st.sampled_from([1, 7, 16, 17, 300]),
    rounds=st.integers(1, 6),
    zeros=st.sampled_from([0.0, 0.5, 0.95]),
    seed=st.integers(0, 2**32 - 1),
)
def test_finds_what_cumulative_sums_find(capacity, rounds, zeros, seed):
    rng = np.random.default_rng(seed)
    tree, model = sum_tree.init(capacity), np.zeros(capacity, np.float32)
    for _ in range(rounds):
        index = rng.integers(0, capacity, 8)
        # Multiples of 1/8: all sums are exact, so that both break ties alike.
        values = rng.integers(1, 64, 8).astype(np.float32) / 8 * (rng.random(8) >= zeros)
        model[index] = values
        tree = update(tree, jnp.asarray(index), jnp.asarray(model[index]))
    check_sums(tree)
    np.testing.assert_array_equal(tree.levels[0][:capacity], model)
    np.testing.assert_array_equal(sum_tree.priority_of(tree, jnp.asarray(index)), model[index])
    assert float(sum_tree.total(tree)) == model.sum()
    if model.sum() > 0:
        shares = rng.integers(0, 1024, 64).astype(np.float32) / 1024
        ends = np.cumsum(model.astype(np.float64))
        expected = np.searchsorted(ends, shares * np.float32(model.sum()), side="right")
        found = np.asarray(find(tree, jnp.asarray(shares)))
        np.testing.assert_array_equal(found, expected)
        assert (model[found] > 0).all()


def test_an_index_outside_the_leaves_changes_nothing():
    tree = update(sum_tree.init(20), jnp.array([3, 19]), jnp.array([1.0, 2.0]))
    again = update(tree, jnp.full(2, jnp.iinfo(jnp.int32).max), jnp.array([5.0, 7.0]))
    jax.tree.map(equal_arrays, again, tree)


def test_draws_are_proportional_and_never_of_priority_zero():
    """Chi-square over priorities of six orders of magnitude, many of them zero."""
    rng = np.random.default_rng(0)
    priority = (10.0 ** rng.uniform(-3, 3, 5000) * (rng.random(5000) < 0.7)).astype(np.float32)
    tree = update(sum_tree.init(5000), jnp.arange(5000), jnp.asarray(priority))
    drawn = find_within(tree, *jax.random.uniform(jax.random.key(0), (2, 400_000)))
    counts = np.bincount(drawn, minlength=5000)
    assert (counts[priority == 0] == 0).all()
    expected = priority / priority.sum(dtype=np.float64) * counts.sum()
    often = expected >= 10
    observed = [*counts[often], counts[~often].sum()]
    wanted = [*expected[often], expected[~often].sum()]
    assert stats.chisquare(observed, wanted).pvalue > 1e-3


def test_a_leaf_among_a_million_is_drawn_as_often_as_its_priority_says():
    """A share ends in one group of 256 leaves, some of which no float32 tells apart."""
    capacity, small = 1_000_000, 0.03
    priority = np.ones(capacity, np.float32)
    group = 256 * (capacity // 256 * 3 // 4)
    priority[group : group + 256 : 2] = small
    tree = update(sum_tree.init(capacity), jnp.arange(capacity), jnp.asarray(priority))
    before = priority[:group].sum(dtype=np.float64) / priority.sum(dtype=np.float64)
    count = 100_000
    within = (jnp.arange(count) + 0.5) / count
    drawn = find_within(tree, jnp.full(count, before + 1e-5, jnp.float32), within)
    counts = np.bincount(np.asarray(drawn) - group, minlength=256)
    expected = count * priority[group : group + 256] / priority[group : group + 256].sum()
    assert counts.size == 256
    np.testing.assert_allclose(counts, expected, atol=3)


@pytest.mark.parametrize("share", [0.0, 1 - 2**-24, 1.0])
def test_the_ends_of_the_range_are_leaves_with_priority(share):
    """Even if rounding makes the total larger than the sum of the leaves."""
    rng = np.random.default_rng(1)
    priority = rng.random(4000).astype(np.float32) * (np.arange(4000) % 1000 == 500)
    tree = update(sum_tree.init(4000), jnp.arange(4000), jnp.asarray(priority))
    found = int(find(tree, jnp.array([share], jnp.float32))[0])
    assert found == (500 if share == 0 else 3500)


def test_one_tree_per_seed():
    rng = np.random.default_rng(2)
    index = jnp.asarray(rng.integers(0, 100, (3, 10)))
    priority = jnp.asarray(index, jnp.float32) + 1
    shares = jnp.asarray(rng.random((3, 50)), jnp.float32)

    def one(index, priority, shares):
        tree = sum_tree.update(sum_tree.init(100), index, priority)
        return sum_tree.find(tree, shares, jnp.zeros_like(shares))

    found = jax.jit(jax.vmap(one))(index, priority, shares)
    for seed in range(3):
        tree = update(sum_tree.init(100), index[seed], priority[seed])
        np.testing.assert_array_equal(found[seed], find(tree, shares[seed]))


def test_each_share_lies_in_its_own_stratum():
    shares = np.asarray(sum_tree.stratified_shares(jnp.array([0.0, 0.5, 0.25, 1 - 2**-24])))
    np.testing.assert_array_equal(np.floor(shares * 4), [0, 1, 2, 3])
    assert shares.max() < 1


def test_no_leaf_is_refused():
    with pytest.raises(ValueError, match="at least 1 leaf"):
        sum_tree.init(0)
