"""Statistics over seeds: means with Student's interval, others with a bootstrap interval.

Interquartile mean, probability of improvement, performance profile and stratified bootstrap are
those of Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical
Precipice". They take scores by task and seed; a vector holds the seeds of one task. Few seeds that
do not overlap need a permutation test beside them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit  # type: ignore[import-untyped]

CONFIDENCE = 0.95
RESAMPLES = 2_000
BOOTSTRAP_SEED = 0
MOST_RANKED = 120
"""Most seeds of both rows whose splits are counted; more have the normal approximation."""


def interquartile_mean(scores: Float[np.ndarray, "... task seed"]) -> Float[np.ndarray, "..."]:
    """Mean over all tasks and seeds, without the lowest and highest quarter (each rounded down).

    NaN if a score is.
    """
    scores = np.atleast_2d(scores)
    ordered = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = ordered.shape[-1] // 4
    mean = ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
    # Sorting puts NaN last, where the cut is.
    return np.where(np.isnan(ordered[..., -1]), np.nan, mean)


def probability_of_improvement(
    ours: Float[np.ndarray, "... task seed"], theirs: Float[np.ndarray, "... task other_seed"]
) -> Float[np.ndarray, "..."]:
    """P(X > Y) + P(X = Y) / 2 for a run X of ours and a run Y of theirs, mean over tasks.

    On one task, this is Mann and Whitney's U, divided by the number of pairs. NaN if a score is.
    """
    ours, theirs = np.atleast_2d(ours), np.sort(np.atleast_2d(theirs))
    pairs = ours.reshape(-1, ours.shape[-1]), theirs.reshape(-1, theirs.shape[-1])
    # By ranks: a matrix of all pairs, for each resample, takes gigabytes with 200 seeds.
    wins = [_share_of_wins(*pair) for pair in zip(*pairs, strict=True)]
    return np.reshape(wins, ours.shape[:-1]).mean(axis=-1)


def _share_of_wins(
    ours: Float[np.ndarray, " seed"], ordered: Float[np.ndarray, " other_seed"]
) -> float:
    if np.isnan(ours).any() or np.isnan(ordered[-1]):
        return math.nan
    below, not_above = (np.searchsorted(ordered, ours, side) for side in ("left", "right"))
    return float((below + not_above).mean() / (2 * len(ordered)))


def permutation_p_value(
    ours: Float[np.ndarray, " seed"], theirs: Float[np.ndarray, " other_seed"]
) -> float:
    """Two-sided p-value of Mann and Whitney's test on one task, ties included.

    How probably chance alone separates the two at least this far, if all seeds are of one kind. It
    says something where no run of one is among those of the other: a bootstrap interval of the
    probability of improvement then has no width. Exact for up to `MOST_RANKED` seeds in all. NaN if
    a score is.
    """
    if np.isnan(ours).any() or np.isnan(theirs).any():
        return math.nan
    if len(ours) + len(theirs) > MOST_RANKED:
        from scipy import stats  # type: ignore[import-untyped]  # takes a second

        return float(stats.mannwhitneyu(ours, theirs, method="asymptotic").pvalue)
    few, many = sorted((ours, theirs), key=len)
    _, place, count = np.unique(
        np.concatenate([few, many]), return_inverse=True, return_counts=True
    )
    # Twice the ranks, because those of ties are means of two.
    ranks = (2 * np.cumsum(count) - count + 1)[place]
    ways = np.zeros((len(few) + 1, np.sort(ranks)[-len(few) :].sum() + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    of_sums, found = ways[-1], ranks[: len(few)].sum()
    tail = min(of_sums[: found + 1].sum(), of_sums[found:].sum())
    return float(min(1.0, 2 * tail / of_sums.sum()))


def performance_profile(
    scores: Float[np.ndarray, "... task seed"], thresholds: Float[np.ndarray, " point"]
) -> Float[np.ndarray, "... point"]:
    """Share of all runs whose score is above each threshold."""
    return (np.atleast_2d(scores)[..., None] > thresholds).mean(axis=(-3, -2))


def bootstrap_interval(
    statistic: Callable[..., np.ndarray], *samples: Float[np.ndarray, "task seed"]
) -> tuple[np.ndarray, np.ndarray]:
    """95% percentile-bootstrap interval of a statistic, pointwise if it has several values.

    The bootstrap is stratified: seeds are resampled within each task. The resampling has a fixed
    seed, so the interval is a function of the values in their order; in another order, those of a
    few seeds may end at the next of the few values that the statistic has.

    Args:
      statistic: samples with a leading axis of resamples -> [resample, ...].
      samples: scores of one agent each.

    Returns:
      The lower and the upper bound, each of the shape [...].
    """
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    drawn = []
    for scores in map(np.atleast_2d, samples):
        seeds = rng.integers(scores.shape[-1], size=(RESAMPLES, *scores.shape))
        drawn.append(np.take_along_axis(scores[None], seeds, axis=-1))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(statistic(*drawn), [tail, 100 - tail], axis=0)
    return low, high


def final_returns(values: Float[np.ndarray, " seed"]) -> dict[str, Any]:
    """Mean and IQM over the seeds of one task, each with the bounds of its 95% interval.

    One seed has no interval: the bounds are NaN.
    """
    mean, *of_mean = map(float, mean_interval(values))
    no_interval = math.nan, math.nan
    of_iqm = bootstrap_interval(interquartile_mean, values) if len(values) > 1 else no_interval
    return {
        "final_return_mean": mean,
        "final_return_mean_ci95": of_mean,
        "final_return_iqm": float(interquartile_mean(values)),
        "final_return_iqm_ci95": [*map(float, of_iqm)],
    }


def mean_interval(
    values: Float[np.ndarray, "seed ..."],
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Mean over the first axis and the bounds of its 95% interval (Student's t).

    The bounds are NaN for one seed.
    """
    mean, count = values.mean(axis=0), values.shape[0]
    if count < 2:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    quantile = stdtrit(count - 1, (1 + CONFIDENCE) / 2)
    half = quantile * values.std(axis=0, ddof=1) / np.sqrt(count)
    return mean, mean - half, mean + half
