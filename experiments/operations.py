"""Floating-point operations by the paper's rule.

Appendix "Calculation of Floating Point Operations": each weight takes one multiply-add in a forward
pass and two in a backward pass. A multiply-add counts as two operations, as in OpenAI's "AI and
compute", which the paper follows. Everything else, such as the k-NN, counts as negligible.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from re3_jax.agents.sac.config import SACConfig
from re3_jax.networks import conv_stack
from re3_jax.networks.mlp import kernel_shapes

PER_MULTIPLY_ADD = 2

FORWARD_PASSES, BACKWARD_PASSES = 4, 1
"""F and B of the paper: RAD's passes per item of a batch; a backward pass costs two forward ones.

The paper gives no numbers; these are the released code's. The critic's target takes two forward
passes over o', its loss one forward and one backward pass over o, and every second update learns
the actor, which takes two more forward passes. RAD + RE3 then takes 1.1% more operations than the
7.233e16 that the paper states. Twice as many passes and one operation for each multiply-add would
fit that number as well, but not the "roughly twice" of inverse dynamics: it would add 47%.
"""

EXTRA_FORWARD_PASSES = {"none": 0, "re3": 0, "contrastive": 4, "inverse_dynamics": 6}
"""Of one more encoder, per item of a batch; `re3` encodes only the one new observation."""

STATED = {"re3": 7.233e16}
"""Operations of a run of 500,000 env frames on Hopper Hop, by bonus (Section 4.1)."""

STATED_IN_WORDS = {"inverse_dynamics": "roughly twice as many as RE3"}

STATED_SEARCHES = 1.569e15
"""Operations of all searches of such a run (footnote of the appendix)."""


class Networks(NamedTuple):
    """Multiply-adds of one forward pass over one observation.

    Attributes:
      encoder: E of the paper: the convolutions and the linear layer.
      heads: M: the policy and both Q functions.
    """

    encoder: int
    heads: int


def networks(config: SACConfig, image: tuple[int, int, int], action_dim: int) -> Networks:
    """RAD's networks on images of (height, width, channels), as the networks see them."""
    height, width, channels = image
    convs = conv_stack.colour(config.torso, config.num_filters)
    encoder = conv_stack.flat_dim(convs, height, width) * config.latent_dim
    for number, kernel in enumerate(conv_stack.kernel_shapes(convs, channels), start=1):
        # One weight is used once at every position of the output.
        outputs = conv_stack.flat_dim(convs[:number], height, width)
        encoder += outputs * math.prod(kernel[:-1])
    width = config.hidden_dim
    policy = kernel_shapes(config.latent_dim, width, width, 2 * action_dim)
    q = kernel_shapes(config.latent_dim + action_dim, width, width, 1)
    return Networks(encoder, sum(map(math.prod, (*policy, *q, *q))))


def of_iteration(bonus: str, networks: Networks, batch: int) -> int:
    """Operations of one step of the environment and the update after it.

    RAD's are those of b F (E + M) + 2 b B (E + M) + (E + M) multiply-adds, of which the last is
    acting. RE3 adds E, contrastive learning 4 b E, inverse dynamics 6 b E.

    Raises:
      KeyError: the paper does not count this bonus.
    """
    encoder, both = networks.encoder, sum(networks)
    passes = FORWARD_PASSES + 2 * BACKWARD_PASSES
    extra = EXTRA_FORWARD_PASSES[bonus] * batch + (bonus == "re3")
    return PER_MULTIPLY_ADD * (batch * passes * both + both + extra * encoder)


def times_rad(bonus: str, networks: Networks, batch: int) -> float | None:
    """Operations with a bonus over those of RAD alone; None if the paper does not count it."""
    if bonus not in EXTRA_FORWARD_PASSES:
        return None
    return of_iteration(bonus, networks, batch) / of_iteration("none", networks, batch)


def of_searches(updates: Iterable[int], batch: int, capacity: int, latent_dim: int) -> float:
    """Operations of the searches of a run, as the formula of the appendix's footnote has it.

    Printed there is sum_n (d (2 m + 2 min(n, |B|) + 3 m min(n, |B|)) + 2 m min(n, |B|)), which is
    1.558e15 for the paper's sizes. The footnote says 1.569e15, which is the sum with 3 in place of
    the last 2.

    Args:
      updates: n, the agent step of each update.
      batch: m.
      capacity: |B|, latents that the buffer holds.
      latent_dim: d.
    """
    rows = np.minimum(np.fromiter(updates, np.int64), capacity).astype(float)
    by_dimension = 2 * batch + 2 * rows + 3 * batch * rows
    return float(np.sum(latent_dim * by_dimension + 2 * batch * rows))
