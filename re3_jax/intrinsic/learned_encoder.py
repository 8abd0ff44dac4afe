"""Options for encoders that learn beside the agent, for state entropy in their latent space."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

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
        "Calculation of Floating Point Operations") leaves no room for encoding anything again, so
        the default is the ring of latents as stored.
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
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(
                f"learning_rate must be a finite number above 0, but it is {self.learning_rate}"
            )
        if not 0 < self.momentum <= 1:
            raise ValueError(f"momentum must be above 0 and at most 1, but it is {self.momentum}")
        for name in ("shift_pad", "hidden_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but it is {getattr(self, name)}")
        for name, choices in {
            "neighbours": LearnedNeighbours,
            "augmentation": Augmentation,
        }.items():
            if getattr(self, name) not in get_args(choices):
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}: choose one of "
                    f"{', '.join(get_args(choices))}"
                )
