"""Statistics over seeds against SciPy."""

import numpy as np
import pytest
import scipy.stats

from experiments.statistics import (
    bootstrap_interval,
    interquartile_mean,
    mean_half_width,
    probability_of_improvement,
)

RNG = np.random.Generator(np.random.PCG64(3))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 10, 23])
def test_iqm_is_scipys_trimmed_mean(count):
    values = RNG.normal(size=(6, count))
    np.testing.assert_allclose(
        interquartile_mean(values), scipy.stats.trim_mean(values, 0.25, axis=-1), rtol=1e-12
    )


@pytest.mark.parametrize("count", [2, 5, 10])
def test_band_is_students_interval(count):
    values = RNG.normal(size=(count, 4))
    low, high = scipy.stats.t.interval(
        0.95, count - 1, loc=values.mean(axis=0), scale=scipy.stats.sem(values, axis=0)
    )
    np.testing.assert_allclose(mean_half_width(values), (high - low) / 2, rtol=1e-9)


def test_one_seed_has_no_band():
    assert mean_half_width(np.ones((1, 3))).tolist() == [0, 0, 0]
    assert bootstrap_interval(interquartile_mean, np.array([0.5])) == (0.5, 0.5)


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
