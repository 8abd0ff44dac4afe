"""The part of a run's bonus whose latents are looked at: a sum may have others."""

import dataclasses
import math
from typing import Any, NamedTuple

from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.runs import bonuses
from re3_jax.runs.bonuses import Bonus
from re3_jax.runs.build import make_bonus
from re3_jax.runs.config import RunConfig
from re3_jax.runs.looking import stored


class Part(NamedTuple):
    """A bonus, or a part of a sum, that stores latents.

    Attributes:
      entry: what `re3_jax.runs` knows of it.
      bonus: its functions, as they are alone.
      state: its state, of one seed.
      ring: its latents.
      column: of its index in the row that a sum has for each step.
    """

    entry: Bonus
    bonus: IntrinsicReward
    state: Any
    ring: stored.Ring
    column: int


def with_latents(config: RunConfig, intrinsic: Any) -> Part | None:
    """The first state entropy of a run's bonus, or else the first part with a ring; None without.

    Args:
      config: of the run.
      intrinsic: the state of the whole bonus, of one seed and in one piece.
    """
    entries, found, column = bonuses.parts(config.bonus), [], 0
    for entry in entries:
        state = intrinsic.parts[entry.name] if len(entries) > 1 else intrinsic
        bonus = make_bonus(dataclasses.replace(config, bonus=entry.name))
        if (ring := stored.ring_of(state)) is not None:
            found.append(Part(entry, bonus, state, ring, column))
        column += math.prod(bonus.index_shape)
    return min(found, key=lambda part: not part.entry.is_entropy, default=None)
