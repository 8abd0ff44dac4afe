"""RISE: the Renyi entropy of order alpha in place of Shannon's (Yuan et al., 2022).

The reward is r_i = ||y_i - y_i^{k-NN}||_2^{1 - alpha} ("Renyi State Entropy Maximization for
Exploration Acceleration in Reinforcement Learning", its particle reward). A power
grows faster than RE3's logarithm, so states far from all others count for more; alpha near 1 pays
all states alike.

The authors learn an encoder (a VAE) from random play first. Here y is RE3's random encoder, and the
neighbours are those that the options of RE3 choose.
"""

from dataclasses import dataclass

from re3_jax import checks
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.re3 import re3
from re3_jax.intrinsic.re3_config import RE3Config
from re3_jax.intrinsic.weight import WeightConfig, weighted


@dataclass(frozen=True)
class RISEConfig(WeightConfig):
    """Options of the bonus beta_t r_i, except those of the encoder, the ring and the neighbours.

    The default weight is RE3's, not searched.

    Attributes:
      alpha: order of the entropy; the default is that of the authors' code. At 0 the reward is the
        distance itself.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        if not 0.0 <= self.alpha < 1.0:
            raise ValueError(f"alpha must be from 0 to below 1, but it is {self.alpha}")


def from_config(config: RISEConfig, entropy: RE3Config) -> IntrinsicReward:
    """The complete bonus: distance, power, beta_t.

    Args:
      config: order and weight.
      entropy: encoder, ring and ranks of the neighbours; `scaled`'s fields have no effect.

    Raises:
      ValueError: if options are of another class.
    """
    checks.made_with(RISEConfig, config, "rise")
    return weighted(config, re3(entropy), transforms.power(1.0 - config.alpha))
