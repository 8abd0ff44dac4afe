"""Whitens observations to mean 0 and variance 1 in each element.

Burda et al., 2019, Section 2.4: each element minus its running mean, divided by its running
standard deviation, and clipped.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from re3_jax import running_stats
from re3_jax.envs.base import EnvSpec
from re3_jax.running_stats import RunningStats

CLIP = 5.0
"""RND's authors' bound on whitened elements."""


def init(spec: EnvSpec) -> RunningStats:
    """Statistics of no observations; mean and variance have the shape of one observation."""
    return running_stats.init(spec.observation_shape)


def update(stats: RunningStats, observation: Num[Array, " batch *observation"]) -> RunningStats:
    """Merges a batch: the result is the moments of all observations seen."""
    return running_stats.update(stats, observation.astype(jnp.float32))


def whiten(
    stats: RunningStats, observation: Num[Array, " batch *observation"], clip: float = CLIP
) -> Float[Array, " batch *observation"]:
    """(o - mean) / std, clipped to [-clip, clip]; o - mean where nothing has varied yet."""
    std = running_stats.std(stats)
    centred = observation.astype(jnp.float32) - stats.mean
    return jnp.clip(centred / jnp.where(std > 0, std, 1.0), -clip, clip)
