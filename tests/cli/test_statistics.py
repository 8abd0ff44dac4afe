"""Statistics over seeds against SciPy, and rliable's formulas written out in NumPy."""

import tracemalloc

import numpy as np
import pytest
import scipy.stats

from re3_jax.runs.statistics import (
    bootstrap_interval,
    final_returns,
    interquartile_mean,
    mean_interval,
    performance_profile,
    permutation_p_value,
    probability_of_improvement,
)

RNG = np.random.Generator(np.random.PCG64(3))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 10, 23])
def test_iqm_is_scipys_trimmed_mean(count):
    values = RNG.normal(size=(6, count))
    np.testing.assert_allclose(
        interquartile_mean(values[:, None]),
        scipy.stats.trim_mean(values, 0.25, axis=-1),
        rtol=1e-12,
    )


@pytest.mark.parametrize("count", [2, 5, 10])
def test_band_is_students_interval(count):
    values = RNG.normal(size=(count, 4))
    low, high = scipy.stats.t.interval(
        0.95, count - 1, loc=values.mean(axis=0), scale=scipy.stats.sem(values, axis=0)
    )
    found = mean_interval(values)
    np.testing.assert_allclose(found, (values.mean(axis=0), low, high), rtol=1e-9)


def test_one_seed_has_no_interval():
    mean, low, high = mean_interval(np.ones((1, 3)))
    assert mean.tolist() == [1, 1, 1] and np.isnan([low, high]).all()
    found = final_returns(np.array([0.5]))
    assert found["final_return_mean"] == found["final_return_iqm"] == 0.5
    bounds = found["final_return_mean_ci95"] + found["final_return_iqm_ci95"]
    assert len(bounds) == 4 and np.isnan(bounds).all()


def test_bootstrap_interval_agrees_with_scipys():
    values = RNG.normal(size=30)
    expected = scipy.stats.bootstrap(
        (values,),
        lambda x, axis: scipy.stats.trim_mean(x, 0.25, axis=axis),
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    interval = bootstrap_interval(interquartile_mean, values)
    # Each bound is a quantile of 2,000 draws, so its error is a small share of the width.
    np.testing.assert_allclose(interval, expected, atol=0.08 * (expected.high - expected.low))
    assert bootstrap_interval(interquartile_mean, values) == interval


def test_probability_of_improvement_is_mann_and_whitneys():
    # Rounded, so that some pairs are equal.
    ours, theirs = RNG.normal(0.5, size=9).round(), RNG.normal(size=7).round()
    u = scipy.stats.mannwhitneyu(ours, theirs, alternative="greater").statistic
    assert probability_of_improvement(ours, theirs) == pytest.approx(u / 63, rel=1e-12)
    assert probability_of_improvement(theirs, ours) == pytest.approx(1 - u / 63, rel=1e-12)


def test_interval_of_the_probability_agrees_with_scipys():
    ours, theirs = RNG.normal(0.5, size=20), RNG.normal(size=15)
    expected = scipy.stats.bootstrap(
        (ours, theirs),
        lambda x, y, axis: scipy.stats.mannwhitneyu(x, y, axis=axis).statistic / 300,
        method="percentile",
        n_resamples=5_000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    interval = bootstrap_interval(probability_of_improvement, ours, theirs)
    np.testing.assert_allclose(interval, expected, atol=0.08 * (expected.high - expected.low))
    assert bootstrap_interval(probability_of_improvement, ours, ours - 10) == (1, 1)


# Tasks of very different returns, so that resampling across tasks would show.
MEANS, SPREADS = np.array([[0.0], [10.0], [100.0]]), np.array([[1.0], [2.0], [5.0]])
SCORES = np.random.default_rng(4).normal(MEANS, SPREADS, size=(3, 12)).round(1)
OTHERS = np.random.default_rng(5).normal(MEANS - 0.5, SPREADS, size=(3, 8)).round(1)
THRESHOLDS = np.linspace(-3, 110, 40)


def resampled(generator, scores, count):
    """rliable's StratifiedBootstrap: indices of seeds, task by task."""
    seeds = scores.shape[1]
    return np.array(
        [[task[generator.integers(seeds, size=seeds)] for task in scores] for _ in range(count)]
    )


def probability(ours, theirs):
    """rliable: Mann and Whitney's U over the number of pairs, task by task, then the mean."""
    u = scipy.stats.mannwhitneyu(ours, theirs, axis=-1, method="asymptotic").statistic
    return (u / (ours.shape[-1] * theirs.shape[-1])).mean(axis=-1)


def test_iqm_is_over_the_scores_of_all_tasks():
    expected = scipy.stats.trim_mean(SCORES, proportiontocut=0.25, axis=None)
    assert interquartile_mean(SCORES) == pytest.approx(expected, rel=1e-12)


def test_performance_profile_is_the_share_of_runs_above():
    expected = [np.mean([score > tau for score in SCORES.ravel()]) for tau in THRESHOLDS]
    np.testing.assert_array_equal(performance_profile(SCORES, THRESHOLDS), expected)
    # A score at the threshold is not above it.
    assert performance_profile(np.array([1.0, 2.0]), np.array([1.0, 2.0])).tolist() == [0.5, 0]


def test_probability_of_improvement_is_the_mean_over_tasks():
    expected = probability(SCORES, OTHERS)
    assert probability_of_improvement(SCORES, OTHERS) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("count", "others"), [(2, 3), (4, 4), (7, 7), (30, 30), (60, 60)])
def test_p_value_is_mann_and_whitneys(count, others):
    ours, theirs = RNG.normal(0.3, size=count), RNG.normal(size=others)
    exact = scipy.stats.mannwhitneyu(ours, theirs, method="exact").pvalue
    assert permutation_p_value(ours, theirs) == pytest.approx(exact, rel=1e-12)
    assert permutation_p_value(theirs, ours) == pytest.approx(exact, rel=1e-12)


def test_p_value_of_ties():
    # Two of the 70 ways to split eight seeds leave four equal ones together.
    assert permutation_p_value(np.array([3.0, 1, 4, 5]), np.zeros(4)) == pytest.approx(2 / 70)
    assert permutation_p_value(np.zeros(4), np.zeros(3)) == 1
    generator = np.random.default_rng(6)
    ours, theirs = generator.integers(0, 4, 7), generator.integers(0, 3, 6)
    ranks = np.split(scipy.stats.rankdata(np.concatenate([ours, theirs])), [7])
    every_split = scipy.stats.permutation_test(ranks, lambda x, y: x.mean(), n_resamples=np.inf)
    assert permutation_p_value(ours, theirs) == pytest.approx(every_split.pvalue, rel=1e-12)
    assert 0.05 < every_split.pvalue < 0.95


def test_p_value_of_many_seeds_is_the_approximation():
    generator = np.random.default_rng(6)
    ours, theirs = generator.normal(0.2, size=80), generator.normal(size=80)
    for count in (60, 80):
        pair = ours[:count], theirs[:count]
        found = scipy.stats.mannwhitneyu(*pair, method="asymptotic").pvalue
        assert permutation_p_value(*pair) == pytest.approx(found, rel=1e-12 if count > 60 else 0.02)


def test_bootstrap_interval_of_several_tasks_is_stratified():
    generator = np.random.default_rng(1)
    x, y = (resampled(generator, scores, 8_000) for scores in (SCORES, OTHERS))
    means = scipy.stats.trim_mean(x.reshape(len(x), -1), 0.25, axis=-1)
    low, high = np.percentile(means, [2.5, 97.5])
    interval = bootstrap_interval(interquartile_mean, SCORES)
    np.testing.assert_allclose(interval, (low, high), atol=0.08 * (high - low))
    low, high = np.percentile(probability(x, y), [2.5, 97.5])
    interval = bootstrap_interval(probability_of_improvement, SCORES, OTHERS)
    np.testing.assert_allclose(interval, (low, high), atol=0.08 * (high - low))


@pytest.mark.parametrize("count", [1, 5, 10, 30])
def test_one_task_is_resampled_as_the_committed_tables_were(count):
    """One draw of indices from PCG64 with seed 0; another stream would change their digits."""
    values = RNG.normal(size=count)
    drawn = np.random.Generator(np.random.PCG64(0)).integers(count, size=(2_000, count))
    ordered = np.sort(values[drawn], axis=-1)[:, count // 4 : count - count // 4]
    expected = np.percentile(ordered.mean(axis=-1), [2.5, 97.5])
    interval = bootstrap_interval(interquartile_mean, values)
    np.testing.assert_allclose(interval, expected, rtol=1e-12)
    assert bootstrap_interval(interquartile_mean, values[None]) == interval


def test_profile_has_a_pointwise_interval():
    low, high = bootstrap_interval(lambda x: performance_profile(x, THRESHOLDS), SCORES)
    drawn = resampled(np.random.default_rng(2), SCORES, 4_000)
    expected = np.percentile((drawn[..., None] > THRESHOLDS).mean(axis=(1, 2)), [2.5, 97.5], axis=0)
    # The profile moves in steps of one run in 36.
    np.testing.assert_allclose((low, high), expected, atol=1 / 36 + 1e-9)
    assert low.shape == THRESHOLDS.shape and np.all(low <= high)


def test_one_score_that_is_no_number_makes_all_statistics_so():
    """Sorting puts it last, so a trimmed mean would not see it."""
    values = np.array([0.9, 0.8, 0.85, 0.95, np.nan])
    found = final_returns(values)
    numbers = [found["final_return_mean"], found["final_return_iqm"]]
    assert np.isnan(numbers + found["final_return_iqm_ci95"]).all()
    assert np.isnan(interquartile_mean(np.array([[1.0, 2.0], [3.0, np.nan]])))
    for pair in ((values, values[:4]), (values[:4], values)):
        assert np.isnan(probability_of_improvement(*pair))


def test_many_seeds_need_little_memory():
    """All pairs of each resample at once would take 15 GB."""
    ours, theirs = RNG.normal(size=(2, 1_000))
    tracemalloc.start()
    low, high = bootstrap_interval(probability_of_improvement, ours, theirs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.4 < low < high < 0.6
    assert peak < 2**28


def test_what_is_no_number_separates_nothing():
    assert np.isnan(permutation_p_value(np.array([np.nan, 1.0]), np.array([0.0, 2.0])))
    assert np.isnan(permutation_p_value(np.array([0.0, 2.0]), np.array([np.nan, 1.0])))


def test_samples_are_resampled_apart():
    """The same indices for both would leave no difference between equal samples."""
    values = np.arange(10.0)
    low, high = bootstrap_interval(lambda x, y: (x - y).mean(axis=(-2, -1)), values, values)
    spread = 2 * 1.96 * (2 * values.var() / 10) ** 0.5
    np.testing.assert_allclose(high - low, spread, rtol=0.1)
