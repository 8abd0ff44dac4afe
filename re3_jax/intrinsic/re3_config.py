"""Options of a state-entropy bonus with any encoder."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks
from re3_jax.intrinsic.encoder_config import EncoderConfig
from re3_jax.intrinsic.weight import WeightConfig

Normalization = Literal["none", "running_std", "released_running_std", "running_mean"]


@dataclass(frozen=True)
class RE3Config(EncoderConfig, WeightConfig):
    """Options of the bonus beta_t r_i, except the training of a learned encoder.

    The defaults are the paper's for MiniGrid, the weight that of DoorKey-6x6. The released code is
    `first_neighbour=1, last_neighbour=5, normalize="released_running_std"`.

    Attributes:
      first_neighbour: rank of the nearest neighbour that counts; 1 is the nearest of all.
      last_neighbour: rank of the furthest neighbour that counts; the distance is the mean over
        first..last. For a single k-th neighbour set both to k.
      count_self: whether an observation's own latent is its neighbour of rank 1 (distance 0).
      ring_size: latents kept; older ones are overwritten. Off-policy, at least as many as the
        replay holds steps, or an old one is paid for another observation.
      search_size: number of newest latents to search, which bounds the cost of a search; None
        searches all that are kept.
      merge_copies: whether to store latents of equal observations once, with a count. The search
        finds the same neighbours, much faster where observations repeat (gridworlds), slower
        where they do not.
      ring_shards: number of devices among which the rows of a seed's ring are divided, for a ring
        too large for one; programs then run inside `shard_map` (see `sharded_ring`).
      normalize: divide by the exact running standard deviation, by that of the released code, by
        the running mean (as APT does), or not at all.
      log1p: whether to take log(1 + .) after that.
      ensemble_size: number of encoders, each with its own ring; their distances are averaged.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    first_neighbour: int = 2
    last_neighbour: int = 3
    count_self: bool = True
    ring_size: int = 10_000
    search_size: int | None = None
    merge_copies: bool = False
    ring_shards: int = 1
    normalize: Normalization = "none"
    log1p: bool = True
    ensemble_size: int = 1

    def __post_init__(self) -> None:
        """Validates the fields."""
        WeightConfig.__post_init__(self)
        EncoderConfig.__post_init__(self)
        sizes = "ring_size", "ring_shards", "ensemble_size"
        checks.at_least(self, 1, "first_neighbour", "last_neighbour", *sizes)
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
                "cannot be counted: set count_self to false and lower the ranks by 1, to no less "
                "than 1"
            )
        if self.search_size is not None:
            checks.at_least(self, 1, "search_size")
            if self.search_size > self.ring_size:
                raise ValueError(
                    f"search_size must be at most ring_size ({self.ring_size}) or None, but it is "
                    f"{self.search_size}"
                )
        searched = self.search_size or self.ring_size
        if self.last_neighbour > searched - (0 if self.count_self else 1):
            size = "ring_size" if self.search_size is None else "search_size"
            raise ValueError(
                f"a ring of {searched} latents has no neighbour of rank "
                f"{self.last_neighbour}: raise {size} or lower last_neighbour"
            )
        self._check_shards()
        checks.one_of(self, normalize=Normalization)

    def _check_shards(self) -> None:
        if self.ring_shards > 1 and self.merge_copies:
            raise ValueError(
                "the tables of a ring that merges copies cannot be divided among devices: set "
                "merge_copies to false or ring_shards to 1"
            )
        for size in filter(None, (self.ring_size, self.search_size)):
            if size % self.ring_shards:
                fits = checks.largest_divisor(size, most=self.ring_shards)
                raise ValueError(
                    f"{size} latents cannot be divided evenly among ring_shards "
                    f"{self.ring_shards}: set it to {fits}"
                )
