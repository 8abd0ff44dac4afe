"""Statistics over seeds: means with Student's interval, others with a bootstrap interval."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit  # type: ignore[import-untyped]

CONFIDENCE = 0.95
RESAMPLES = 2_000
BOOTSTRAP_SEED = 0


def interquartile_mean(values: Float[np.ndarray, "... seed"]) -> Float[np.ndarray, "..."]:
    """Mean without the lowest and the highest quarter (each rounded down) of the last axis."""
    ordered = np.sort(values, axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def probability_of_improvement(
    ours: Float[np.ndarray, "... seed"], theirs: Float[np.ndarray, "... other_seed"]
) -> Float[np.ndarray, "..."]:
    """P(X > Y) + P(X = Y) / 2 for a run X of ours and a run Y of theirs on one task.

    Agarwal et al. (2021): Mann and Whitney's U, divided by the number of pairs.
    """
    wins = np.sign(ours[..., :, None] - theirs[..., None, :])
    return (1 + wins.mean(axis=(-2, -1))) / 2


def bootstrap_interval(
    statistic: Callable[..., np.ndarray], *samples: Float[np.ndarray, " seed"]
) -> tuple[float, float]:
    """95% percentile-bootstrap interval of a statistic of samples over the seeds of one task.

    The stratified bootstrap of Agarwal et al. (2021) with one stratum. The resampling has a fixed
    seed, so the interval is a function of the values.
    """
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    drawn = [x[rng.integers(len(x), size=(RESAMPLES, len(x)))] for x in samples]
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(statistic(*drawn), [tail, 100 - tail])
    return float(low), float(high)


def final_returns(values: Float[np.ndarray, " seed"]) -> dict[str, Any]:
    """Mean and IQM over the seeds of one task, each with the bounds of its 95% interval."""
    mean, half = float(values.mean()), float(mean_half_width(values))
    return {
        "final_return_mean": mean,
        "final_return_mean_ci95": [mean - half, mean + half],
        "final_return_iqm": float(interquartile_mean(values)),
        "final_return_iqm_ci95": list(bootstrap_interval(interquartile_mean, values)),
    }


def mean_half_width(values: Float[np.ndarray, "seed ..."]) -> Float[np.ndarray, "..."]:
    """Half the 95% interval of the mean over the first axis (Student's t); 0 for one seed."""
    count = values.shape[0]
    if count < 2:
        return np.zeros(values.shape[1:])
    quantile = stdtrit(count - 1, (1 + CONFIDENCE) / 2)
    return quantile * values.std(axis=0, ddof=1) / np.sqrt(count)
