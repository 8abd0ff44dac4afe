"""How an encoder is learned beside the agent, for state entropy in the space of it."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

Augmentation = Literal["crop", "shift"]

LearnedNeighbours = Literal["ring", "minibatch"]
"""Of `state_entropy.Neighbours` those of which an encoder that changes makes sense."""


@dataclass(frozen=True)
class LearnedEncoderConfig:
    """Training of the contrastive and the inverse dynamics encoder.

    The paper states none of these numbers; learning rate, optimiser and momentum are CURL's
    (Srinivas et al., 2020), whose loss it takes, and the width is that of the paper's ICM.

    Attributes:
      learning_rate: of Adam.
      neighbours: where they are sought, see `state_entropy`. The paper's Algorithm 1 takes them
        from the whole buffer, and its count of operations for learned encoders (Appendix
        "Calculation of Floating Point Operations") leaves no room to encode anything anew, so
        the default is the ring with latents as stored.
      momentum: part of the way that the key encoder of the contrastive loss moves towards the
        trained one in each update.
      augmentation: of pixel images for the contrastive loss: random crops of `image_crop` pixels
        or random shifts. A MiniGrid view is always shifted.
      shift_pad: largest shift along either axis in pixels, or in cells of a MiniGrid view (one
        of 7 is about DrQ's 4 of 84 pixels, rounded up).
      hidden_dim: units of each of the two layers that predict the action in inverse dynamics.

    Raises:
      ValueError: if a value is out of range; the sentence says which and what is allowed.
    """

    learning_rate: float = 1e-3
    neighbours: LearnedNeighbours = "ring"
    momentum: float = 0.05
    augmentation: Augmentation = "crop"
    shift_pad: int = 1
    hidden_dim: int = 1024

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
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
