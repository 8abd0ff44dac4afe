"""What a run has stored: latents, and the transitions behind them where a replay keeps them."""

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, Shaped

from re3_jax.replay import (
    distinct_ring,
    frame_ring,
    latent_ring,
    prioritized,
    sequence_ring,
    transition_ring,
)
from re3_jax.replay.distinct_ring import DistinctRing
from re3_jax.replay.frame_ring import FrameReplay
from re3_jax.replay.latent_ring import LatentRing
from re3_jax.replay.prioritized import PrioritizedReplay
from re3_jax.replay.sequence_ring import SequenceReplay
from re3_jax.replay.sharded_ring import ShardedRing
from re3_jax.replay.transition_ring import TransitionRing

Ring = LatentRing | DistinctRing


class Drawn(NamedTuple):
    """Transitions from a replay, as JAX's arrays or NumPy's.

    Attributes:
      frame: the newest of o_t; all of o_t where nothing is stacked.
      place: where the bonus keeps the latent of o_t; of a sum, a row with each part's index.
      reward: of the task.
    """

    frame: Shaped[Any, " point *frame"]
    place: Int[Any, " point *index"]
    reward: Float[Any, " point"]


@singledispatch
def draw(replay: Any, key: PRNGKeyArray, number: int) -> Drawn | None:
    """Draws transitions of one seed, with replacement; None from what is no replay."""
    del replay, key, number
    return None


@draw.register
def _(replay: FrameReplay, key: PRNGKeyArray, number: int) -> Drawn:
    found, index = frame_ring.sample(key, replay, number, stack=1)
    return Drawn(found.observation, index, found.reward)


@draw.register
def _(replay: TransitionRing, key: PRNGKeyArray, number: int) -> Drawn:
    found, index = transition_ring.sample(key, replay, number)
    return Drawn(found.observation, index, found.reward)


@draw.register
def _(replay: PrioritizedReplay, key: PRNGKeyArray, number: int) -> Drawn:
    found = prioritized.sample(key, replay, number, n=1, stack=1, gamma=1.0)
    return Drawn(found.observation, found.bonus_index, found.reward)


@draw.register
def _(replay: SequenceReplay, key: PRNGKeyArray, number: int) -> Drawn:
    found = sequence_ring.sample(key, replay, number, length=1)
    return Drawn(found.frames[:, 0], found.bonus_index[:, 0], found.reward[:, 0])


def in_one_piece(intrinsic: Any) -> Any:
    """The state of a bonus, in which a ring that is divided among devices is a `LatentRing`."""

    def whole(leaf: Any) -> Any:
        # Equal bit for bit; from the host, so that one device holds all rows.
        return LatentRing(*map(jnp.asarray, jax.device_get(leaf))) if _divided(leaf) else leaf

    return jax.tree.map(whole, intrinsic, is_leaf=_divided)


def _divided(leaf: Any) -> bool:
    return isinstance(leaf, ShardedRing)


def ring_of(intrinsic: Any) -> Ring | None:
    """The ring of latents of one seed, the first member's of an ensemble; None without one."""
    found = jax.tree.leaves(intrinsic, is_leaf=lambda leaf: isinstance(leaf, Ring))
    ring = next((leaf for leaf in found if isinstance(leaf, Ring)), None)
    if ring is None or ring.num_valid.ndim == 0:
        return ring
    first: Ring = jax.tree.map(lambda leaf: leaf[0], ring)
    return first


def most_at_once(intrinsic: Any) -> int:
    """How many latents fit the smallest ring of one seed's state, which has one."""
    found = jax.tree.leaves(intrinsic, is_leaf=lambda leaf: isinstance(leaf, Ring))
    return min(capacity(leaf) for leaf in found if isinstance(leaf, Ring))


def places(ring: Ring, number: int) -> Int[np.ndarray, " point"]:
    """At most so many places with latents, evenly spaced in time, the oldest first."""
    valid = int(ring.num_valid)
    ages = np.unique(np.linspace(0, valid - 1, min(number, valid)).astype(int))[::-1]
    return (int(ring.cursor) - 1 - ages) % capacity(ring)


def ages(ring: Ring, place: Int[np.ndarray, " point"]) -> Int[np.ndarray, " point"]:
    """How many latents were stored after the one at each place."""
    return (int(ring.cursor) - 1 - place) % capacity(ring)


def latents(ring: Ring, place: Int[np.ndarray, " point"]) -> Float[np.ndarray, "point latent"]:
    """The latents at places of a ring."""
    kind = distinct_ring if isinstance(ring, DistinctRing) else latent_ring
    return np.asarray(ring.latents[kind.row_at(ring, jnp.asarray(place, jnp.int32))])


def capacity(ring: Ring) -> int:
    """How many latents a ring holds at most, or each of an ensemble's."""
    return (ring.row_of if isinstance(ring, DistinctRing) else ring.fingerprints).shape[-1]
