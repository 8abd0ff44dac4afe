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

- `minibatch`: the batch to reward, with the values that the agent gives it now, as published.
- `ring`: all stored latents, each with its value when it was stored; both are looked up for the
  batch, too. This is ours. It needs no pass of the critic over the batch, and more states tell
  what is rare, but values from before the agent learned anything stay until they are overwritten.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax import checks, fingerprint, knn, schedules
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, Step, chain
from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.state_entropy import EncoderState
from re3_jax.replay import latent_ring
from re3_jax.replay.latent_ring import LatentRing

VCSENeighbours = Literal["minibatch", "ring"]

LOG_OFFSET = 1e-5
"""Added to eps before the logarithm."""

VARIANCE_OFFSET = 1e-5
"""Added to the variance of values, PyTorch's `LayerNorm`."""


@dataclass(frozen=True)
class VCSEConfig:
    """Options of the bonus beta_t r_i, except those of the encoder and the ring.

    Attributes:
      k: rank of the neighbour, the state itself not counted. The authors' A2C has 3, their SAC 11.
      neighbours: where to search, the minibatch or the ring of all that is stored.
      beta: beta_0, the weight of the bonus (the authors' of A2C).
      rho: beta_t = beta_0 (1 - rho)^t, t in agent steps.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    k: int = 3
    neighbours: VCSENeighbours = "minibatch"
    beta: float = 0.005
    rho: float = 0.0

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.at_least(self, 1, "k")
        checks.one_of(self, neighbours=VCSENeighbours)
        schedules.exponential_decay(self.beta, self.rho)


@inherits("encoder")
class VCSEState(NamedTuple):
    """State of the bonus.

    Attributes:
      encoder: weights of the random encoder.
      ring: the stored latents.
      values: the agent's value of each when it was stored; None for `minibatch`.
    """

    encoder: EncoderState
    ring: LatentRing
    values: Float[Array, " capacity"] | None


def vcse(config: VCSEConfig, entropy: RE3Config) -> IntrinsicReward:
    """The bare r_i, in nats per dimension; it can be negative.

    Reports `vcse_eps_mean` and `vcse_n_v_mean`.

    Args:
      config: rank and neighbours; `from_config` uses the other fields.
      entropy: encoder and `ring_size`; its other fields have no effect.

    Raises:
      ValueError: if the ring has no neighbour of rank k; from `reward`, if a minibatch has none.
    """
    in_ring = config.neighbours == "ring"
    if in_ring and config.k > entropy.ring_size - 1:
        raise ValueError(
            f"a ring of {entropy.ring_size} latents has no neighbour of rank {config.k}: raise "
            "ring_size or lower vcse.k"
        )
    # An ensemble is RE3's, with which this bonus may be added up.
    encoder = encoder_from(dataclasses.replace(entropy, ensemble_size=1))

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> VCSEState:
        del num_lanes
        ring = latent_ring.init(entropy.ring_size, encoder.latent_dim(spec))
        values = jnp.zeros(entropy.ring_size, jnp.float32) if in_ring else None
        return VCSEState(encoder.init(key, spec), ring, values)

    def observe(state: VCSEState, step: Step) -> tuple[VCSEState, Int[Array, " lane"]]:
        with jax.named_scope("encode"):
            latents = encoder.encode(state.encoder, step.observation)
            identity = fingerprint.of(encoder.visible(state.encoder, step.observation))
            ring, index = latent_ring.add(state.ring, latents, identity)
        values = state.values
        if values is not None:
            stored = _given(step.value, "Step.value")
            values = values.at[index].set(stored, unique_indices=True)
        return VCSEState(state.encoder, ring, values), index

    def reward(
        state: VCSEState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], VCSEState, Info]:
        ring, row = state.ring, batch.bonus_index
        latents, identity = ring.latents[row], ring.fingerprints[row]
        if state.values is None:
            _check_minibatch(config, len(row))
            ring, row = latent_ring.add(latent_ring.init(*latents.shape), latents, identity)
            values = _given(batch.value, "IntrinsicBatch.value")
            is_stored = jnp.ones(len(row), bool)
        else:
            is_stored = jnp.arange(entropy.ring_size) < ring.num_valid
            values = state.values
        with jax.named_scope("knn"):
            scale = 1.0 / jnp.sqrt(jnp.var(values, where=is_stored) + VARIANCE_OFFSET)
            radius = knn.kth_joint_distance(
                latents,
                values[row],
                ring,
                values,
                k=config.k,
                scale=scale,
                exclude=row,
                fingerprints=identity,
            )
            # Rows lead, because XLA's CPU backend does not vectorise a sum over the last axis.
            is_near = knn.gap_between(values[:, None], values[row], scale) < radius
            count = jnp.sum(is_near & is_stored[:, None], axis=0, dtype=jnp.float32)
        eps = 2 * radius
        paid = digamma(count + 1) / latents.shape[1] + jnp.log(eps + LOG_OFFSET)
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
    beta = schedules.exponential_decay(config.beta, config.rho)
    return chain(vcse(config, entropy), transforms.scale_by_schedule(beta))


def _given(value: Float[Array, " rows"] | None, name: str) -> Float[Array, " rows"]:
    if value is None:
        raise ValueError(
            f"vcse compares the agent's values of observations, but there are none: set {name}"
        )
    return value


def _check_minibatch(config: VCSEConfig, batch_size: int) -> None:
    if config.k > batch_size - 1:
        raise ValueError(
            f"a minibatch of {batch_size} has no neighbour of rank {config.k}: raise the batch "
            'size, lower k or set neighbours to "ring"'
        )
