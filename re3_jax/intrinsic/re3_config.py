"""What defines a state-entropy bonus, whatever its encoder."""

from dataclasses import dataclass
from typing import Literal, get_args

from re3_jax import schedules
from re3_jax.initializers import Scheme
from re3_jax.random_encoder import ImageInput

Normalization = Literal["none", "running_std", "released_running_std"]


@dataclass(frozen=True)
class RE3Config:
    """All that defines the bonus beta_t r_i, but for how an encoder is learned.

    The defaults are the paper's for MiniGrid. The released code is
    `first_neighbour=1, last_neighbour=5, normalize="released_running_std"`.

    Attributes:
      first_neighbour: rank of the nearest neighbour that counts, 1 being the nearest.
      last_neighbour: rank of the furthest; the distance is the mean over first..last. For a
        single k-th neighbour both are k.
      count_self: whether an observation's own latent is its neighbour of rank 1 (distance 0).
      ring_size: latents kept; older ones are overwritten.
      search_size: neighbours are sought among the newest so many latents only, which bounds what
        a search costs; None for all that are kept.
      merge_copies: whether latents of equal observations are stored once, with their number. It
        finds the same neighbours, much faster where observations repeat (gridworlds), slower
        where they do not.
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
    search_size: int | None = None
    merge_copies: bool = False
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
        if self.search_size is not None and self.count_self:
            raise ValueError(
                "an observation older than search_size is not among the latents searched and "
                "cannot be counted: set count_self to false and lower both ranks by 1"
            )
        if self.search_size is not None and not 1 <= self.search_size <= self.ring_size:
            raise ValueError(
                f"search_size must be from 1 to ring_size ({self.ring_size}) or None, but it is "
                f"{self.search_size}"
            )
        searched = self.search_size or self.ring_size
        if self.last_neighbour > searched - (0 if self.count_self else 1):
            size = "ring_size" if self.search_size is None else "search_size"
            raise ValueError(
                f"a ring of {searched} latents has no neighbour of rank "
                f"{self.last_neighbour}: raise {size} or lower last_neighbour"
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
