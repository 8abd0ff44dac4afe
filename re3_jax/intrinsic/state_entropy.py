"""State entropy: the distance to the nearest neighbours in the latent space of any encoder.

RE3's encoder is random. The paper compares it with encoders that are learned beside the agent
(contrastive, inverse dynamics) and with pre-trained ones (Section 4.1, "Effects of representation
learning"); Equation 3 is the same for all.

Neighbours come from one of three places:

- `ring`: all stored latents. Each is computed once, when its observation is stored, with the
  encoder at that time: one forward pass per stored observation.
- `minibatch`: the batch to reward, encoded again with the current encoder. Nothing is stored.
- `stored_minibatch`: the batch to reward, with its stored latents. If the encoder never changes,
  these are the same latents as those of `minibatch`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped, UInt32

from re3_jax import batch_split, fingerprint, knn
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import diagnostics, transforms
from re3_jax.intrinsic.base import (
    Info,
    IntrinsicBatch,
    IntrinsicReward,
    Step,
    no_index,
)
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.weight import weighted
from re3_jax.repeats import once_each, once_each_element
from re3_jax.replay import distinct_ring, latent_ring, sharded_ring
from re3_jax.replay.sharded_ring import ShardedRing

Ring = knn.Ring | ShardedRing

Neighbours = Literal["ring", "minibatch", "stored_minibatch"]

EncoderState = Any
"""A pytree of arrays: the weights, and the training state of a learned encoder."""


class Encoder(NamedTuple):
    """Maps observations to latents: pure functions over an explicit state.

    init(key, spec) -> state
    encode(state, observation[batch, ...]) -> latents[batch, latent] float32, with leading
      [member] where `RE3Config.ensemble_size` is above 1
    latent_dim(spec) -> length of a latent
    update(state, batch, key) -> (state, info): one step of training; `never_trained` for none
    visible(state, observation[batch, ...]) -> the part of each observation that its latent
      depends on: if two of these parts are equal, the latents are equal up to rounding
    """

    init: Callable[[PRNGKeyArray, EnvSpec], EncoderState]
    encode: Callable[
        [EncoderState, Shaped[Array, " batch *observation"]], Float[Array, "*member batch latent"]
    ]
    latent_dim: Callable[[EnvSpec], int]
    update: Callable[[EncoderState, IntrinsicBatch, PRNGKeyArray], tuple[EncoderState, Info]]
    visible: Callable[
        [EncoderState, Shaped[Array, " batch *observation"]], Shaped[Array, " batch *visible"]
    ] = lambda state, observation: observation


@inherits("encoder")
class StateEntropyState(NamedTuple):
    """State of the bonus; an ensemble adds a leading member axis to every leaf.

    Attributes:
      encoder: state of the encoder.
      ring: the stored latents; None for `minibatch`.
      newest: the newest `search_size` latents, the only ones searched; None if all are searched.
    """

    encoder: EncoderState
    ring: Ring | None
    newest: Ring | None = None


def never_trained(
    state: EncoderState, batch: IntrinsicBatch, key: PRNGKeyArray
) -> tuple[EncoderState, Info]:
    """The `update` of an encoder that never changes."""
    del batch, key
    return state, {}


def refuse_ensemble(config: RE3Config, name: str) -> None:
    """Rejects an ensemble of encoders that are not random.

    Raises:
      ValueError: if `ensemble_size` is above 1.
    """
    if config.ensemble_size > 1:
        raise ValueError(
            f"an ensemble is of random encoders, but the encoder of {name} is not random: set "
            "ensemble_size to 1"
        )


def state_entropy(
    config: RE3Config, encoder: Encoder, neighbours: Neighbours = "ring"
) -> IntrinsicReward:
    """The bare mean distance to the neighbours of ranks first..last, in latent units.

    An ensemble averages it over its members. If fewer neighbours exist, it is the mean over those
    that do (see `knn.mean_distance`). `reward` reports `diagnostics.of_neighbours`.

    Args:
      config: ranks, ring and ensemble; `scaled` uses the other fields.
      encoder: computes the latents.
      neighbours: where to search for them.

    Raises:
      ValueError: from `reward`, if a minibatch has no neighbour of rank `last_neighbour`.
    """
    is_ensemble = config.ensemble_size > 1
    in_ring, has_ring = neighbours == "ring", neighbours != "minibatch"
    has_newest = in_ring and config.search_size is not None
    whole: Any = sharded_ring if in_ring and config.ring_shards > 1 else latent_ring
    searched: Any = distinct_ring if in_ring and config.merge_copies else whole
    # A ring that is not searched is only read by index, so copies need not be merged.
    store = whole if has_newest else searched

    def over_members(function):
        return jax.vmap(function) if is_ensemble else function

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> StateEntropyState:
        del num_lanes
        if not has_ring:
            return StateEntropyState(encoder.init(key, spec), None)
        latent_dim = encoder.latent_dim(spec)
        rings = (
            store.init(config.ring_size, latent_dim),
            searched.init(config.search_size, latent_dim) if has_newest else None,
        )
        if is_ensemble:
            rings = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf, (config.ensemble_size, *leaf.shape)), rings
            )
        return StateEntropyState(encoder.init(key, spec), *rings)

    def observe(
        state: StateEntropyState, step: Step
    ) -> tuple[StateEntropyState, Int[Array, " lane"]]:
        if not has_ring:
            return state, no_index(step)
        observation = step.observation
        with jax.named_scope("encode"):
            identity = fingerprints_of(state, observation)
            encode = partial(encoder.encode, state.encoder)
            if config.merge_copies and not is_ensemble:
                latents = once_each_element(encode, observation, identity)
            else:
                latents = encode(observation)
            ring, index = over_members(store.add)(state.ring, latents, identity)
            newest = state.newest
            if newest is not None:
                newest, _ = over_members(searched.add)(newest, latents, identity)
        index = index[0] if is_ensemble else index
        return state._replace(ring=ring, newest=newest), index

    def row_in_newest(newest: Ring, ring: Ring, place: Int[Array, " batch"]):
        """Rows in `newest` of latents at places of `ring`; -1 for those older than `newest`."""
        assert config.search_size is not None
        found = latent_ring.place_in_newest(
            ring.cursor, config.ring_size, newest.cursor, config.search_size, place
        )
        return jnp.where(found >= 0, searched.row_at(newest, jnp.maximum(found, 0)), -1)

    def fingerprints_of(state: StateEntropyState, observation) -> UInt32[Array, "*member batch"]:
        """Fingerprints of the visible part of observations, the same for every member."""
        found = fingerprint.of(encoder.visible(state.encoder, observation))
        if is_ensemble:
            return jnp.broadcast_to(found, (config.ensemble_size, *found.shape))
        return found

    def of_batch(state: StateEntropyState, batch: IntrinsicBatch) -> tuple[Array, Array]:
        """The batch's latents and fingerprints, stored or computed now."""
        if has_ring:
            return over_members(lambda ring: _take(ring, batch.required("bonus_index")))(state.ring)
        with jax.named_scope("encode"):
            latents = encoder.encode(state.encoder, batch.observation)
            return latents, fingerprints_of(state, batch.observation)

    def nearest(latents: Array, identity: Array, among: Ring, own_row: Int[Array, " batch"]):
        axis_name = None
        if isinstance(among, ShardedRing):
            among, axis_name = sharded_ring.own_slice(among), sharded_ring.AXIS

        def search(latents: Array, identity: Array, own_row: Array):
            return knn.nearest_and_mean(
                latents,
                among,
                fingerprints=identity,
                k=config.last_neighbour,
                first=config.first_neighbour,
                exclude=None if config.count_self else own_row,
                axis_name=axis_name,
            )

        return batch_split.by_rows(search, latents, identity, own_row)

    def reward(
        state: StateEntropyState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], StateEntropyState, Info]:
        def search_ring(ring: Ring, newest: Ring | None):
            row = store.row_at(ring, batch.required("bonus_index"))
            if isinstance(ring, distinct_ring.DistinctRing):
                return once_each(lambda row: nearest(*_take(ring, row), ring, row), row)
            latents, identity = _take(ring, row)
            if newest is None:
                return nearest(latents, identity, ring, row)
            newest_row = row_in_newest(newest, ring, batch.required("bonus_index"))
            return nearest(latents, identity, newest, newest_row)

        def search_batch(latents: Float[Array, "batch latent"], identity: UInt32[Array, " batch"]):
            check_minibatch(
                len(latents), config.last_neighbour, "last_neighbour", config.count_self
            )
            return nearest(latents, identity, *_ring_of(latents, identity))

        encoded = () if in_ring else of_batch(state, batch)
        with jax.named_scope("knn"):
            if in_ring:
                distances, distance = over_members(search_ring)(state.ring, state.newest)
            else:
                distances, distance = over_members(search_batch)(*encoded)
            info = diagnostics.of_neighbours(distances, count_self=config.count_self)
            return distance.mean(axis=0) if is_ensemble else distance, state, info

    def update(
        state: StateEntropyState, batch: IntrinsicBatch, key: PRNGKeyArray
    ) -> tuple[StateEntropyState, Info]:
        with jax.named_scope("encoder update"):
            trained, info = encoder.update(state.encoder, batch, key)
        return state._replace(encoder=trained), info

    return IntrinsicReward(init, observe, reward, update)


def scaled(
    config: RE3Config, bonus: IntrinsicReward, released: transforms.RunningStd = "released"
) -> IntrinsicReward:
    """The complete bonus: normalisation, log(1 + .) (Eq. 3) and beta_t (Eq. 4) of the distance.

    Args:
      config: which of these, and beta.
      bonus: the bare distance.
      released: what `released_running_std` means: the authors' agents differ.
    """
    steps = []
    if config.normalize == "running_std":
        steps.append(transforms.normalize_by_running_std("exact"))
    elif config.normalize == "released_running_std":
        steps.append(transforms.normalize_by_running_std(released))
    elif config.normalize == "running_mean":
        steps.append(transforms.normalize_by_running_mean())
    if config.log1p:
        steps.append(transforms.log1p())
    return weighted(config, bonus, *steps)


def _take(ring: Ring, row: Int[Array, " batch"]) -> tuple[Array, Array]:
    """Latents and fingerprints of rows."""
    if isinstance(ring, ShardedRing):
        return sharded_ring.take(ring, row)
    return ring.latents[row], ring.fingerprints[row]


def _ring_of(
    latents: Float[Array, "batch latent"], fingerprints: UInt32[Array, " batch"]
) -> tuple[Ring, Int[Array, " batch"]]:
    return latent_ring.add(latent_ring.init(*latents.shape), latents, fingerprints)


def check_minibatch(batch_size: int, rank: int, field: str, count_self: bool = False) -> None:
    """Refuses a batch without a neighbour of the rank that `field` says."""
    if rank > batch_size - (0 if count_self else 1):
        raise ValueError(
            f"a minibatch of {batch_size} has no neighbour of rank {rank}: raise the batch size, "
            f'lower {field} or set neighbours to "ring"'
        )
