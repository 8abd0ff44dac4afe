"""Running mean and variance of a stream of rewards, exact or as the released code has it.

`update` merges batches by Chan's formula, so that the result is the population mean and
variance of everything seen, in whatever pieces it came. `update_released` is the recursion
in the authors' code, which differs in one operator; the published curves were made with it.

All numbers are float32, the count too: it is exact up to 2^24 values; past the point where
adding a batch no longer changes it (2^24 times the batch size) the statistics turn into an
exponential average over that many values, instead of overflowing.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class RunningStats(NamedTuple):
    """Moments of the values seen so far."""

    mean: Float[Array, ""]
    variance: Float[Array, ""]
    num_values: Float[Array, ""]


class _BatchMoments(NamedTuple):
    mean: Float[Array, ""]
    variance: Float[Array, ""]


def _batch_moments(values: Float[Array, " batch"]) -> _BatchMoments:
    """Population moments; measured from the first value, so that equal values give exactly 0."""
    shifted = values.astype(jnp.float32) - values[0].astype(jnp.float32)
    shift = shifted.mean()
    return _BatchMoments(values[0] + shift, jnp.square(shifted - shift).mean())


def init() -> RunningStats:
    """Statistics of nothing: count 0."""
    return RunningStats(*(jnp.zeros((), jnp.float32) for _ in range(3)))


def update(stats: RunningStats, values: Float[Array, " batch"]) -> RunningStats:
    """Merges a batch: afterwards mean and (population) variance are those of all values seen."""
    batch = _batch_moments(values)
    total = stats.num_values + values.shape[0]
    share = values.shape[0] / total
    delta = batch.mean - stats.mean
    between = jnp.square(delta) * (stats.num_values / total)
    return RunningStats(
        mean=stats.mean + delta * share,
        variance=stats.variance + share * (batch.variance - stats.variance + between),
        num_values=total,
    )


def init_released() -> RunningStats:
    """Where the released recursion starts: mean 0, variance 1, count 1e-4."""
    return RunningStats(
        mean=jnp.zeros((), jnp.float32),
        variance=jnp.ones((), jnp.float32),
        num_values=jnp.full((), 1e-4, jnp.float32),
    )


def update_released(stats: RunningStats, values: Float[Array, " batch"]) -> RunningStats:
    """The authors' recursion, where "mean + delta + n / total" stands for "mean + delta n / total".

    The mean is in effect the last batch's plus n / total; the second update thus sees a jump
    of 1 that is not there and inflates the standard deviation for some hundred updates, and
    later drift of the batch means hardly counts as variance. Batch variance is unbiased.

    Raises:
      ValueError: if the batch holds a single value (its unbiased variance is undefined).
    """
    size = values.shape[0]
    if size < 2:
        raise ValueError(
            "the released running std needs at least 2 rewards per batch: use larger batches "
            "or the exact variant"
        )
    batch = _batch_moments(values)
    total = stats.num_values + size
    delta = batch.mean - stats.mean
    within = stats.variance * stats.num_values + batch.variance * (size / (size - 1)) * size
    between = jnp.square(delta) * stats.num_values * size / total
    return RunningStats(
        mean=stats.mean + delta + size / total,
        variance=(within + between) / total,
        num_values=total,
    )


def std(stats: RunningStats) -> Float[Array, ""]:
    """Standard deviation of the values seen."""
    return jnp.sqrt(stats.variance)
