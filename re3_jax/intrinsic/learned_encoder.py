"""Options for encoders that learn beside the agent, for state entropy in their latent space."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks

Augmentation = Literal["crop", "shift"]

LearnedNeighbours = Literal["ring", "minibatch"]
"""The choices of `state_entropy.Neighbours` that make sense with an encoder that changes."""


@dataclass(frozen=True)
class LearnedEncoderConfig:
    """Training of the contrastive and the inverse dynamics encoder.

    The paper states none of these numbers. Learning rate, optimiser and momentum are CURL's
    (Srinivas et al., 2020), whose loss the paper uses; the width is that of the paper's ICM.

    Attributes:
      learning_rate: learning rate of Adam.
      neighbours: where to search for neighbours, see `state_entropy`. The paper's Algorithm 1 takes
        them from the whole buffer, and its count of operations for learned encoders (Appendix
        "Calculation of Floating Point Operations") leaves no room for encoding anything again:
        `ring` has the latents as they were stored.
      momentum: fraction of the way that each update moves the key encoder of the contrastive loss
        towards the trained encoder.
      augmentation: of pixel images for the contrastive loss: random crops of `image_crop` pixels
        or random shifts. A MiniGrid view is always shifted.
      shift_pad: largest shift along either axis in pixels, or in cells of a MiniGrid view (1 of 7
        cells is about DrQ's 4 of 84 pixels, rounded up).
      hidden_dim: units of each of the two hidden layers that predict the action in inverse
        dynamics.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    learning_rate: float = 1e-3
    neighbours: LearnedNeighbours = "ring"
    momentum: float = 0.05
    augmentation: Augmentation = "crop"
    shift_pad: int = 1
    hidden_dim: int = 1024

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.positive(self, "learning_rate")
        checks.positive_share(self, "momentum")
        checks.at_least(self, 1, "shift_pad", "hidden_dim")
        checks.one_of(self, neighbours=LearnedNeighbours, augmentation=Augmentation)
