"""Scalars for checking a bonus, from rewards and distances that are already computed."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from re3_jax.intrinsic.base import Info
from re3_jax.plural import number_of

QUANTILES = {"p05": 0.05, "p50": 0.5, "p95": 0.95}
"""Suffix of a diagnostic's name -> quantile of the batch."""


def of_rewards(reward: Float[Array, " batch"]) -> Info:
    """Mean, standard deviation and quantiles of the bonus that the agent gets, beta included.

    Returns:
      `intrinsic_reward_mean`, `_std`, `_p05`, `_p50` and `_p95`.
    """
    return {
        "intrinsic_reward_mean": jnp.mean(reward),
        "intrinsic_reward_std": jnp.std(reward),
        **_quantiles("intrinsic_reward", reward),
    }


def of_neighbours(distances: Float[Array, "*member batch rank"], *, count_self: bool) -> Info:
    """Distance to the nearest *other* latent, and how often that distance is 0.

    Args:
      distances: to the nearest latents, as `knn.nearest_distances` returns them: ascending, in
        latent units, before normalisation, logarithm and beta. An ensemble adds a leading member
        axis, over which they are averaged.
      count_self: whether rank 1 is the observation's own latent, as in `RE3Config`.

    Returns:
      `nearest_distance_p05`, `_p50` and `_p95` over the batch, and `duplicate_share`, the share
      of the batch whose nearest other is at distance exactly 0: whose observation is stored, or
      within a batch drawn, more than once. This includes the very first latent, which has no
      other.

    Raises:
      ValueError: if `distances` has no rank for another latent.
    """
    own = 1 if count_self else 0
    if distances.shape[-1] <= own:
        raise ValueError(
            f"distances of {number_of(distances.shape[-1], 'rank')} hold no other latent: "
            f"search for {own + 1} neighbours or more"
        )
    nearest = distances[..., own]
    if nearest.ndim > 1:
        nearest = jnp.mean(nearest, axis=0)
    return {
        **_quantiles("nearest_distance", nearest),
        "duplicate_share": jnp.mean(nearest == 0.0, dtype=jnp.float32),
    }


def _quantiles(name: str, values: Float[Array, " batch"]) -> Info:
    """Quantiles by linear interpolation, NumPy's default; one sort serves all of them."""
    ordered = jnp.sort(values)
    last = values.shape[0] - 1
    found = {}
    for suffix, quantile in QUANTILES.items():
        below, part = divmod(quantile * last, 1.0)
        low = ordered[int(below)]
        found[f"{name}_{suffix}"] = low + part * (ordered[min(int(below) + 1, last)] - low)
    return found
