"""VCSE: state entropy among states of similar value (Kim et al., 2023, arXiv:2305.19476).

The value-conditional state entropy H(S | V), estimated as by Kraskov, Stogbauer and Grassberger
(2004), gives the reward r^VCSE of the paper (Section 4),

    r_i = digamma(n_v(i) + 1) / d + log eps(i),

where eps(i) is twice the distance from (y_i, v_i) to its k-th nearest neighbour in the max-norm
max(||y_i - y_j||, |v_i - v_j|), n_v(i) the number of values within eps(i) / 2 of v_i, and d the
length of a latent. States of other values do not count as near, so a crowd of worthless states does
not lower the bonus of the valuable ones, nor the other way round.

As in the authors' code (kingdy2002/VCSE), n_v counts the state itself, log eps is
log(eps + 1e-5), and values are first divided by their standard deviation. y is RE3's random
encoder, as in their A2C. The value is the agent's own, which also foresees the bonus; their critic
of the task's reward alone is PPO's, with `intrinsic_value_head`.

Neighbours come from one of two places:

- `minibatch`: the batch to reward, with the values that the agent gives it now, as published. With
  `RE3Config.merge_copies` states of a large batch that agree in observation and value are searched
  for once: the same neighbours, faster where observations repeat.
- `ring`: all stored latents, each with its value when it was stored; both are looked up for the
  batch, too. This is ours. It needs no pass of the critic over the batch, and more states tell
  what is rare, but values from before the agent learned anything stay until they are overwritten.
  `search_size` bounds the search to the newest; a state that is older than these counts itself,
  too.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import digamma
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from re3_jax import checks, fingerprint, knn
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, Step
from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import EncoderState
from re3_jax.intrinsic.stored_latents import check_minibatch
from re3_jax.intrinsic.weight import WeightConfig, weighted
from re3_jax.repeats import AT_ONCE, first_places, once_each, once_each_element
from re3_jax.replay import distinct_ring, latent_ring
from re3_jax.replay.latent_ring import LatentRing

VCSENeighbours = Literal["minibatch", "ring"]

LOG_OFFSET = 1e-5
"""Added to eps before the logarithm."""

VARIANCE_OFFSET = 1e-5
"""Added to the variance of values, as PyTorch's `LayerNorm` does."""


@dataclass(frozen=True)
class VCSEConfig(WeightConfig):
    """Options of the bonus beta_t r_i, except those of the encoder and the ring.

    The default weight is the authors' of A2C.

    Attributes:
      k: rank of the neighbour, the state itself not counted. The authors' A2C has 3, their SAC 11.
      neighbours: where to search, the minibatch or the ring of all that is stored.
      search_size: number of newest states to search in the ring, which bounds the cost of a search;
        None searches all that are kept.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    k: int = 3
    neighbours: VCSENeighbours = "minibatch"
    search_size: int | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        checks.at_least(self, 1, "k")
        if self.search_size is not None:
            checks.at_least(self, 1, "search_size")
            if self.search_size <= self.k:
                raise ValueError(
                    f"among {self.search_size} states none has a neighbour of rank {self.k}: raise "
                    "search_size or lower k"
                )
        checks.one_of(self, neighbours=VCSENeighbours)


@inherits("encoder")
class VCSEState(NamedTuple):
    """State of the bonus.

    Attributes:
      encoder: weights of the random encoder.
      ring: the stored latents.
      values: the agent's value of each when it was stored; None for `minibatch`.
      newest: the newest `search_size` latents, the only ones searched; None if all are searched.
      newest_values: their values.
    """

    encoder: EncoderState
    ring: LatentRing
    values: Float[Array, " capacity"] | None
    newest: LatentRing | None = None
    newest_values: Float[Array, " searched"] | None = None


class _Searched(NamedTuple):
    """The states among which neighbours are sought.

    Attributes:
      ring: their latents.
      values: of each row.
      copies: number of states that each row stands for.
      scale: what gaps between values are multiplied by, one over their standard deviation.
    """

    ring: knn.Ring
    values: Float[Array, " rows"]
    copies: Int[Array, " rows"]
    scale: Float[Array, ""]


def vcse(config: VCSEConfig, entropy: RE3Config) -> IntrinsicReward:
    """The bare r_i, in nats per dimension; it can be negative.

    Reports `vcse_eps_mean` and `vcse_n_v_mean`.

    Args:
      config: rank and neighbours; `from_config` uses the other fields.
      entropy: encoder, `ring_size` and, in the minibatch, `merge_copies`; its other fields have no
        effect.

    Raises:
      ValueError: if the ring has no neighbour of rank k, or options are of another class; from
        `reward`, if a minibatch has no such neighbour.
    """
    checks.made_with(VCSEConfig, config, "vcse")
    checks.made_with(RE3Config, entropy, "vcse")
    in_ring = config.neighbours == "ring"
    if in_ring and config.k > entropy.ring_size - 1:
        raise ValueError(
            f"a ring of {entropy.ring_size} latents has no neighbour of rank {config.k}: raise "
            "ring_size or lower vcse.k"
        )
    # An ensemble is RE3's, with which this bonus may be added up.
    encoder = encoder_from(dataclasses.replace(entropy, ensemble_size=1))
    merges = entropy.merge_copies and not in_ring
    size = config.search_size
    bounded = size if in_ring and size is not None and size < entropy.ring_size else None

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> VCSEState:
        del num_lanes
        latent_dim = encoder.latent_dim(spec)

        def empty(rows: int) -> tuple[LatentRing, Float[Array, " rows"]]:
            return latent_ring.init(rows, latent_dim), jnp.zeros(rows, jnp.float32)

        ring, values = empty(entropy.ring_size)
        newest = () if bounded is None else empty(bounded)
        return VCSEState(encoder.init(key, spec), ring, values if in_ring else None, *newest)

    def observe(state: VCSEState, step: Step) -> tuple[VCSEState, Int[Array, " lane"]]:
        with jax.named_scope("encode"):
            encode = partial(encoder.encode, state.encoder)
            identity = fingerprint.of(encoder.visible(state.encoder, step.observation))
            if merges:
                latents = once_each_element(encode, step.observation, identity)
            else:
                latents = encode(step.observation)
            if state.values is None:
                ring, index = latent_ring.add(state.ring, latents, identity)
                return state._replace(ring=ring), index
            stored = latents, identity, step.required("value")
            ring, values, index = _add(state.ring, state.values, *stored)
            state = state._replace(ring=ring, values=values)
            if state.newest is not None and state.newest_values is not None:
                newest, newest_values, _ = _add(state.newest, state.newest_values, *stored)
                state = state._replace(newest=newest, newest_values=newest_values)
            return state, index

    def reward(
        state: VCSEState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], VCSEState, Info]:
        row, is_merged = batch.required("bonus_index"), False
        with jax.named_scope("knn"):
            if state.values is None:
                check_minibatch(len(row), config.k, "k")
                values = batch.required("value").astype(jnp.float32)
                is_merged = merges and len(row) > AT_ONCE
                among, row = _minibatch(state.ring, row, values, is_merged)
                search = partial(_radius_and_count, config.k, among, among.ring, among.values)
            else:
                among = _stored(state.ring, state.values)
                if state.newest is not None and state.newest_values is not None:
                    among = _stored(state.newest, state.newest_values)
                search = partial(_radius_and_count, config.k, among, state.ring, state.values)
            radius, count = once_each(search, row) if is_merged else search(row)
        eps = 2 * radius
        latent_dim = state.ring.latents.shape[1]
        paid = digamma(count + 1) / latent_dim + jnp.log(eps + LOG_OFFSET)
        return paid, state, {"vcse_eps_mean": jnp.mean(eps), "vcse_n_v_mean": jnp.mean(count)}

    return IntrinsicReward(
        init,
        observe,
        reward,
        update=lambda state, batch, key: (state, {}),
        needs_stored_value=in_ring,
        needs_value=not in_ring,
    )


def from_config(config: VCSEConfig, entropy: RE3Config) -> IntrinsicReward:
    """The complete bonus: r_i and beta_t."""
    return weighted(config, vcse(config, entropy))


def _scale(
    values: Float[Array, " rows"], counted: Bool[Array, " rows"] | None = None
) -> Float[Array, ""]:
    """One over the standard deviation of the finite values."""
    # One NaN would make the bonus of all others NaN.
    is_finite = jnp.isfinite(values)
    counted = is_finite if counted is None else counted & is_finite
    return 1.0 / jnp.sqrt(jnp.var(values, where=counted) + VARIANCE_OFFSET)


def _add(
    ring: LatentRing,
    values: Float[Array, " rows"],
    latents: Float[Array, "lane latent"],
    identity: UInt32[Array, " lane"],
    value: Float[Array, " lane"],
) -> tuple[LatentRing, Float[Array, " rows"], Int[Array, " lane"]]:
    """Stores latents with their values; also returns their rows."""
    ring, index = latent_ring.add(ring, latents, identity)
    return ring, values.at[index].set(value.astype(values.dtype), unique_indices=True), index


def _stored(ring: LatentRing, values: Float[Array, " rows"]) -> _Searched:
    """All that a ring holds as what is searched."""
    is_stored = jnp.arange(len(values)) < ring.num_valid
    return _Searched(ring, values, is_stored.astype(jnp.int32), _scale(values, is_stored))


def _minibatch(
    ring: LatentRing, place: Int[Array, " batch"], values: Float[Array, " batch"], merges: bool
) -> tuple[_Searched, Int[Array, " batch"]]:
    """The batch at these places as what is searched, and the row of each of its states."""
    latents, identity = ring.latents[place], ring.fingerprints[place]
    scale = _scale(values)
    if not merges:
        own, row = latent_ring.add(latent_ring.init(*latents.shape), latents, identity)
        return _Searched(own, values, jnp.ones(len(place), jnp.int32), scale), row
    # The value may depend on more than the encoder sees: on the past, with a recurrent agent.
    bits = lax.bitcast_convert_type(values.astype(jnp.float32), jnp.uint32)
    both = fingerprint.of(jnp.stack([identity, bits], axis=1))
    distinct, index = distinct_ring.add(distinct_ring.init(*latents.shape), latents, both)
    row = distinct_ring.row_at(distinct, index)
    is_first = first_places(row) == jnp.arange(len(row))
    row_of_first = jnp.where(is_first, row, len(row))

    def by_row(of_batch: Array) -> Array:
        return jnp.zeros_like(of_batch).at[row_of_first].set(of_batch, mode="drop")

    distinct = distinct._replace(fingerprints=by_row(identity))
    return _Searched(distinct, by_row(values), distinct.copies, scale), row


def _radius_and_count(
    k: int,
    among: _Searched,
    ring: knn.Ring,
    values: Float[Array, " kept"],
    row: Int[Array, " n"],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Half of eps, and n_v, of the states in these rows of `ring` and `values`."""
    value = values[row]
    itself = row
    if ring is not among.ring:
        sizes = len(values), len(among.values)
        itself = latent_ring.place_in_newest(
            ring.cursor, sizes[0], among.ring.cursor, sizes[1], row
        )
    radius = knn.kth_joint_distance(
        ring.latents[row],
        value,
        among.ring,
        among.values,
        k=k,
        scale=among.scale,
        exclude=itself,
        fingerprints=ring.fingerprints[row],
    )
    # Rows lead, because XLA's CPU backend does not vectorise a sum over the last axis.
    is_near = knn.gap_between(among.values[:, None], value, among.scale) < radius
    count = jnp.sum(jnp.where(is_near, among.copies[:, None], 0), axis=0)
    if itself is not row:
        count += (itself < 0) & (radius > 0)
    return radius, count.astype(jnp.float32)
