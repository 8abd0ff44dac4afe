"""RE3: the distance to the nearest neighbours in the space of a random encoder.

Equation 3: r_i = log(1 + ||y_i - y_i^{k-NN}||), with y = f_theta(o) and the neighbours among
the latents of the newest `ring_size` observations, those of the batch itself included (they
are written before any reward is asked for). On MiniGrid the distance is a mean over
neighbours of several ranks (paper, Appendix "Details on MiniGrid Experiments").
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax import knn, random_encoder, schedules
from re3_jax.envs.base import EnvSpec
from re3_jax.initializers import Scheme
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, chain
from re3_jax.random_encoder import EncoderParams, ImageInput
from re3_jax.replay import latent_ring
from re3_jax.replay.latent_ring import LatentRing

Normalization = Literal["none", "running_std", "released_running_std"]


@dataclass(frozen=True)
class RE3Config:
    """All that defines the bonus beta_t r_i.

    The defaults are the paper's for MiniGrid. The released code is
    `first_neighbour=1, last_neighbour=5, normalize="released_running_std"`.

    Attributes:
      first_neighbour: rank of the nearest neighbour that counts, 1 being the nearest.
      last_neighbour: rank of the furthest; the distance is the mean over first..last. For a
        single k-th neighbour both are k.
      count_self: whether an observation's own latent is its neighbour of rank 1 (distance 0).
      ring_size: latents kept; older ones are overwritten.
      beta: beta_0, the weight of the bonus (the default is DoorKey-6x6's).
      rho: beta_t = beta_0 (1 - rho)^t, t in agent steps.
      normalize: divide by no, the exact, or the released code's running standard deviation.
      log1p: whether log(1 + .) follows.
      encoder_init: how the encoder's weights are drawn (see `initializers`).
      latent_dim: length of y; a MiniGrid view always gives 64.
      ensemble_size: number of encoders, each with a ring of its own; their distances are
        averaged.
      image_input: what of a stack of pixel frames is encoded, the whole newest frame (released
        code) or the centre crop of all of them.
      image_crop: height and width of that crop in pixels.
      num_filters: filters of each of the four convolutions over pixels.

    Raises:
      ValueError: if a value is out of range; the sentence says which and what is allowed.
    """

    first_neighbour: int = 2
    last_neighbour: int = 3
    count_self: bool = True
    ring_size: int = 10_000
    beta: float = 0.005
    rho: float = 0.0
    normalize: Normalization = "none"
    log1p: bool = True
    encoder_init: Scheme = "torch"
    latent_dim: int = 64
    ensemble_size: int = 1
    image_input: ImageInput = "newest_frame"
    image_crop: int = 84
    num_filters: int = 32

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        counts = "first_neighbour", "ring_size", "latent_dim", "ensemble_size"
        for name in (*counts, "image_crop", "num_filters"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but it is {getattr(self, name)}")
        if self.last_neighbour < self.first_neighbour:
            raise ValueError(
                f"last_neighbour ({self.last_neighbour}) must not be below first_neighbour "
                f"({self.first_neighbour})"
            )
        if self.last_neighbour == 1 and self.count_self:
            raise ValueError(
                "the only neighbour that counts would be the observation itself, at distance 0: "
                "raise last_neighbour or set count_self to false"
            )
        others = self.ring_size - (0 if self.count_self else 1)
        if self.last_neighbour > others:
            raise ValueError(
                f"a ring of {self.ring_size} latents has no neighbour of rank "
                f"{self.last_neighbour}: raise ring_size or lower last_neighbour"
            )
        choices_of = {
            "normalize": Normalization,
            "encoder_init": Scheme,
            "image_input": ImageInput,
        }
        for name, choices in choices_of.items():
            if getattr(self, name) not in get_args(choices):
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}: choose one of "
                    f"{', '.join(get_args(choices))}"
                )
        schedules.exponential_decay(self.beta, self.rho)


class RE3State(NamedTuple):
    """The encoder's weights and the latents; with an ensemble each leaf leads with members."""

    encoder: EncoderParams
    ring: LatentRing


def re3(config: RE3Config) -> IntrinsicReward:
    """The bare mean distance to the neighbours of ranks first..last, in latent units.

    With fewer neighbours in the ring than asked for it is the mean over those that exist, and
    0 for the first observation of all (see `knn.mean_distance`).
    """
    is_ensemble = config.ensemble_size > 1

    def over_members(function):
        return jax.vmap(function) if is_ensemble else function

    def init(key: PRNGKeyArray, spec: EnvSpec) -> RE3State:
        encoder = random_encoder.init(
            key,
            spec,
            init=config.encoder_init,
            latent_dim=config.latent_dim,
            ensemble_size=config.ensemble_size,
            image_input=config.image_input,
            image_crop=config.image_crop,
            num_filters=config.num_filters,
        )
        latent_dim = random_encoder.latent_dim_of(spec, config.latent_dim)
        ring = latent_ring.init(config.ring_size, latent_dim)
        if is_ensemble:
            ring = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf, (config.ensemble_size, *leaf.shape)), ring
            )
        return RE3State(encoder, ring)

    def observe(
        state: RE3State, observation: Shaped[Array, " batch *observation"]
    ) -> tuple[RE3State, Int[Array, " batch"]]:
        with jax.named_scope("encode"):
            latents = random_encoder.encode(
                state.encoder,
                observation,
                image_input=config.image_input,
                image_crop=config.image_crop,
            )
            ring, index = over_members(latent_ring.add)(state.ring, latents)
        return state._replace(ring=ring), index[0] if is_ensemble else index

    def reward(
        state: RE3State, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], RE3State, Info]:
        def distance(ring: LatentRing) -> Float[Array, " batch"]:
            return knn.mean_distance(
                ring.latents[batch.ring_index],
                ring,
                first=config.first_neighbour,
                last=config.last_neighbour,
                exclude=None if config.count_self else batch.ring_index,
            )

        with jax.named_scope("knn"):
            distances = over_members(distance)(state.ring)
            return distances.mean(axis=0) if is_ensemble else distances, state, {}

    return IntrinsicReward(
        init=init, observe=observe, reward=reward, update=lambda state, batch, key: (state, {})
    )


def from_config(config: RE3Config) -> IntrinsicReward:
    """The whole bonus of one preset: distance, normalisation, log(1 + .), beta_t."""
    steps = []
    if config.normalize == "running_std":
        steps.append(transforms.normalize_by_running_std("exact"))
    elif config.normalize == "released_running_std":
        steps.append(transforms.normalize_by_running_std("released"))
    if config.log1p:
        steps.append(transforms.log1p())
    steps.append(transforms.scale_by_schedule(schedules.exponential_decay(config.beta, config.rho)))
    return chain(re3(config), *steps)
