"""Returns and lengths of the episodes that end while lanes are stepped."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from re3_jax.training.train_state import Lanes


class EpisodeTotals(NamedTuple):
    """Sums over the episodes that ended in a stretch of training."""

    episodes: Float[Array, "..."]
    returns: Float[Array, "..."]
    lengths: Float[Array, "..."]


def count_episodes(
    lanes: Lanes, reward: Float[Array, " lane"], done: Bool[Array, " lane"]
) -> tuple[Lanes, EpisodeTotals]:
    """Adds one step of every lane to its episode; totals are per lane."""
    episode_return = lanes.episode_return + reward
    episode_length = lanes.episode_length + 1
    totals = EpisodeTotals(
        episodes=done.astype(jnp.float32),
        returns=jnp.where(done, episode_return, 0.0),
        lengths=jnp.where(done, episode_length, 0).astype(jnp.float32),
    )
    after = lanes._replace(
        episode_return=jnp.where(done, 0.0, episode_return),
        episode_length=jnp.where(done, 0, episode_length),
    )
    return after, totals


def episode_metrics(
    totals: EpisodeTotals, axis: int | None = None
) -> dict[str, Float[Array, "..."]]:
    """Number of episodes and means over them, NaN if none ended; summed over `axis`, or all."""
    episodes, returns, lengths = (jnp.sum(total, axis) for total in totals)
    return {
        "episodes": episodes,
        "episode_return_mean": returns / episodes,
        "episode_length_mean": lengths / episodes,
    }
