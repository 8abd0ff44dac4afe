"""The weight beta_t of a bonus, and the scale of one that is no state entropy."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks, schedules
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import IntrinsicReward, RewardTransform, chain

Normalization = Literal["none", "running_std"]


@dataclass(frozen=True, kw_only=True)
class WeightConfig:
    """Options of the weight in a bonus beta_t r_t.

    Attributes:
      beta: beta_0, the weight of the bonus.
      rho: beta_t = beta_0 (1 - rho)^t, t in agent steps.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    beta: float = 0.005
    rho: float = 0.0

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.switches(self)
        checks.numbers(self, "rho")
        checks.not_negative(self, "beta")
        schedules.decay(self.beta, self.rho)


@dataclass(frozen=True, kw_only=True)
class ScaledConfig(WeightConfig):
    """Options of a bonus beta_t r_t that is no state entropy.

    Neither the paper nor the authors of these bonuses have a decay.

    Attributes:
      normalize: `running_std` divides rewards by their exact running standard deviation.
    """

    beta: float = 1e-4
    normalize: Normalization = "none"

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        checks.one_of(self, normalize=Normalization)


def weighted(
    config: WeightConfig, bonus: IntrinsicReward, *steps: RewardTransform
) -> IntrinsicReward:
    """The complete bonus: `steps` in their order, then beta_t = beta (1 - rho)^t."""
    decay = schedules.decay(config.beta, config.rho)
    return chain(bonus, *steps, transforms.scale_by_decay(decay))


def scaled(config: ScaledConfig, bonus: IntrinsicReward) -> IntrinsicReward:
    """The complete bonus: applies `normalize`, then beta_t = beta (1 - rho)^t."""
    normalized = config.normalize == "running_std"
    return weighted(config, bonus, *([transforms.normalize_by_running_std()] if normalized else []))
