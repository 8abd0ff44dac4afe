"""RISE: the Renyi entropy of order alpha in place of Shannon's (Yuan et al., 2022).

The reward is r_i = ||y_i - y_i^{k-NN}||_2^{1 - alpha} ("Renyi State Entropy Maximization for
Exploration Acceleration in Reinforcement Learning", its particle reward). A power
grows faster than RE3's logarithm, so states far from all others count for more; alpha near 1 pays
all states alike.

The authors learn an encoder (a VAE) from random play first. Here y is RE3's random encoder, and the
neighbours are those that the options of RE3 choose.
"""

from dataclasses import dataclass

from re3_jax import schedules
from re3_jax.intrinsic import transforms
from re3_jax.intrinsic.base import IntrinsicReward, chain
from re3_jax.intrinsic.re3 import re3
from re3_jax.intrinsic.re3_config import RE3Config


@dataclass(frozen=True)
class RISEConfig:
    """Options of the bonus beta_t r_i, except those of the encoder, the ring and the neighbours.

    Attributes:
      alpha: order of the entropy; the default is that of the authors' code. At 0 the reward is the
        distance itself.
      beta: beta_0, the weight of the bonus (RE3's of DoorKey-6x6; not searched).
      rho: beta_t = beta_0 (1 - rho)^t, t in agent steps.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    alpha: float = 0.1
    beta: float = 0.005
    rho: float = 0.0

    def __post_init__(self) -> None:
        """Validates the fields."""
        if not 0.0 <= self.alpha < 1.0:
            raise ValueError(f"alpha must be from 0 to below 1, but it is {self.alpha}")
        schedules.exponential_decay(self.beta, self.rho)


def from_config(config: RISEConfig, entropy: RE3Config) -> IntrinsicReward:
    """The complete bonus: distance, power, beta_t.

    Args:
      config: order and weight.
      entropy: encoder, ring and ranks of the neighbours; `scaled`'s fields have no effect.
    """
    beta = transforms.scale_by_schedule(schedules.exponential_decay(config.beta, config.rho))
    return chain(re3(entropy), transforms.power(1.0 - config.alpha), beta)
