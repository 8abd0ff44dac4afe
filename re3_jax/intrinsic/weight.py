"""The weight of a bonus that is no state entropy, whose own is in `re3_config`."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks, schedules
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import IntrinsicReward, chain

Normalization = Literal["none", "running_std"]


@dataclass(frozen=True)
class WeightConfig:
    """Options of a bonus beta_t r_t that is no state entropy.

    Attributes:
      beta: beta_0, the weight of the bonus.
      rho: beta_t = beta_0 (1 - rho)^t, t in agent steps; neither the paper nor the authors of these
        bonuses have a decay.
      normalize: `running_std` divides rewards by their exact running standard deviation.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    beta: float = 1e-4
    rho: float = 0.0
    normalize: Normalization = "none"

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.one_of(self, normalize=Normalization)
        schedules.exponential_decay(self.beta, self.rho)


def scaled(config: WeightConfig, bonus: IntrinsicReward) -> IntrinsicReward:
    """The complete bonus: applies `normalize`, then beta_t = beta (1 - rho)^t."""
    steps = [transforms.scale_by_schedule(schedules.exponential_decay(config.beta, config.rho))]
    if config.normalize == "running_std":
        steps.insert(0, transforms.normalize_by_running_std())
    return chain(bonus, *steps)
