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

from re3_jax import fingerprint
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import diagnostics, stored_latents, transforms
from re3_jax.intrinsic.base import (
    Info,
    IntrinsicBatch,
    IntrinsicReward,
    Step,
    no_index,
)
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.stored_latents import Ring, StoredLatents
from re3_jax.intrinsic.weight import weighted
from re3_jax.repeats import once_each_element

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

    def over_members(function):
        return jax.vmap(function) if is_ensemble else function

    def for_members(array: Array) -> Array:
        """The same for every member."""
        return jnp.broadcast_to(array, (config.ensemble_size, *array.shape))

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> StateEntropyState:
        del num_lanes
        if not has_ring:
            return StateEntropyState(encoder.init(key, spec), None)
        stored = stored_latents.init(config, encoder.latent_dim(spec), is_searched=in_ring)
        if is_ensemble:
            stored = jax.tree.map(for_members, stored)
        return StateEntropyState(encoder.init(key, spec), *stored)

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
            add = over_members(stored_latents.add)
            stored, place = add(stored_in(state), latents, identity)
        place = place[0] if is_ensemble else place
        return state._replace(**stored._asdict()), place

    def stored_in(state: StateEntropyState) -> StoredLatents:
        assert state.ring is not None
        return StoredLatents(state.ring, state.newest)

    def fingerprints_of(state: StateEntropyState, observation) -> UInt32[Array, "*member batch"]:
        """Fingerprints of the visible part of observations, the same for every member."""
        found = fingerprint.of(encoder.visible(state.encoder, observation))
        return for_members(found) if is_ensemble else found

    def of_batch(state: StateEntropyState, batch: IntrinsicBatch) -> tuple[Array, Array]:
        """The batch's latents and fingerprints, stored or computed now."""
        if has_ring:
            place = batch.required("bonus_index")
            return over_members(lambda stored: stored_latents.at(stored, place))(stored_in(state))
        with jax.named_scope("encode"):
            latents = encoder.encode(state.encoder, batch.observation)
            return latents, fingerprints_of(state, batch.observation)

    def reward(
        state: StateEntropyState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], StateEntropyState, Info]:
        def search_stored(stored: StoredLatents):
            return stored_latents.nearest_stored(config, stored, batch.required("bonus_index"))

        encoded = () if in_ring else of_batch(state, batch)
        with jax.named_scope("knn"):
            if in_ring:
                distances, distance = over_members(search_stored)(stored_in(state))
            else:
                search_batch = partial(stored_latents.nearest_in_batch, config)
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
