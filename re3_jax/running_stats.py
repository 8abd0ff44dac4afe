"""Running mean and variance of a stream of rewards: exact, or by the released code's recursion.

`update` merges batches by Chan's formula: the result is the population mean and variance of all
values seen, however they were split into batches of like sizes. `update_released` is the recursion
of the authors' code, which differs in one operator and produced the published curves.

Values that are NaN or infinite, or too large to be squared, change nothing: the moments of their
batch are left out, of arrays those of the element, which has a count of its own. One of them would
make all later ones NaN.

All numbers are float32, including the count, which is exact up to 2^24 values. `update` counts at
most 2^20 times as many values as its batch has; from then on the statistics are an exponential
average over that many batches. Without this limit float32 would drop small contributions and keep
large ones, and the moments would drift. So a batch a million times smaller than what came before
weighs more than its part.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

MOST_BATCHES = 2.0**20


class RunningStats(NamedTuple):
    """Moments of the values seen so far; of arrays, those of each element."""

    mean: Float[Array, " *shape"]
    variance: Float[Array, " *shape"]
    num_values: Float[Array, " *shape"]


class _BatchMoments(NamedTuple):
    mean: Float[Array, " *shape"]
    variance: Float[Array, " *shape"]


def _batch_moments(values: Float[Array, " batch *shape"]) -> _BatchMoments:
    """Population moments, relative to the first value: equal values give variance exactly 0."""
    shifted = values.astype(jnp.float32) - values[0].astype(jnp.float32)
    shift = shifted.mean(axis=0)
    return _BatchMoments(values[0] + shift, jnp.square(shifted - shift).mean(axis=0))


def init(shape: tuple[int, ...] = ()) -> RunningStats:
    """Statistics of no values of this shape: count 0."""
    # Separate arrays, because a donated state must not hold one buffer twice.
    return RunningStats(*(jnp.zeros(shape, jnp.float32) for _ in RunningStats._fields))


def update(stats: RunningStats, values: Float[Array, " batch *shape"]) -> RunningStats:
    """Merges a batch: the result is the mean and population variance of all values seen.

    What came before counts as at most `MOST_BATCHES` batches of this size: of more of them it is an
    average in which the old fade.
    """
    batch = _batch_moments(values)
    size = values.shape[0]
    total = jnp.minimum(stats.num_values + size, MOST_BATCHES * size)
    share = size / total
    delta = batch.mean - stats.mean
    between = jnp.square(delta) * jnp.minimum(stats.num_values / total, 1.0)
    merged = RunningStats(
        mean=stats.mean + delta * share,
        variance=stats.variance + share * (batch.variance - stats.variance + between),
        num_values=total,
    )
    return _unless_not_finite(merged, stats)


def _unless_not_finite(merged: RunningStats, before: RunningStats) -> RunningStats:
    """Each element's moments after a batch, or those before it if they are no numbers."""
    is_finite = jnp.isfinite(merged.mean) & jnp.isfinite(merged.variance)
    return RunningStats(
        *(jnp.where(is_finite, after, old) for after, old in zip(merged, before, strict=True))
    )


def init_released() -> RunningStats:
    """Initial state of the released recursion: mean 0, variance 1, count 1e-4."""
    return RunningStats(
        mean=jnp.zeros((), jnp.float32),
        variance=jnp.ones((), jnp.float32),
        num_values=jnp.full((), 1e-4, jnp.float32),
    )


def update_released(
    stats: RunningStats, values: Float[Array, " batch"], *, unbiased: bool = True
) -> RunningStats:
    """The authors' recursion, with "mean + delta + n / total" in place of "mean + delta n / total".

    In effect, the mean is that of the last batch plus n / total. The second update therefore sees
    a spurious jump of 1, which inflates the standard deviation for some hundred updates; later
    drift of the batch means hardly counts as variance.

    Args:
      stats: of the batches before.
      values: the batch.
      unbiased: divide the batch's sum of squares by n - 1, as their PyTorch code does, or by n, as
        their Dreamer in TensorFlow does.

    Raises:
      ValueError: if the batch holds a single value and its variance is to be unbiased.
    """
    size = values.shape[0]
    if unbiased and size < 2:
        raise ValueError(
            "the released running std needs at least 2 rewards per batch: use larger batches "
            "or the exact variant"
        )
    batch = _batch_moments(values)
    total = stats.num_values + size
    delta = batch.mean - stats.mean
    squares = batch.variance * (size / (size - 1)) if unbiased else batch.variance
    within = stats.variance * stats.num_values + squares * size
    between = jnp.square(delta) * stats.num_values * size / total
    merged = RunningStats(
        mean=stats.mean + delta + size / total,
        variance=(within + between) / total,
        num_values=total,
    )
    return _unless_not_finite(merged, stats)


def std(stats: RunningStats) -> Float[Array, " *shape"]:
    """Standard deviation of the values seen."""
    return jnp.sqrt(stats.variance)
