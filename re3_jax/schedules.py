"""The weight beta_t of the intrinsic reward, as optax-style maps from a step to a scalar."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from re3_jax import checks
from re3_jax.inheritance import inherits

Options = TypeVar("Options", bound=Any)
"""A dataclass of options."""

Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]
"""Agent steps taken so far -> beta, float32. Any optax schedule fits."""


@inherits()
class Decay(NamedTuple):
    """beta_t = beta (1 - rho)^t (Algorithm 1) with its numbers as data.

    In a state, they let one compiled program serve every weight.

    Attributes:
      beta: beta_0, float32.
      log_keep: log(1 - rho), float32.
    """

    beta: Float[ArrayLike, ""]
    log_keep: Float[ArrayLike, ""]

    def at(self, agent_steps: Int[Array, ""]) -> Float[Array, ""]:
        """beta_t; a t that became negative, as an int32 past its end, counts as the largest."""
        steps = jnp.asarray(agent_steps)
        steps = jnp.where(steps < 0, jnp.iinfo(jnp.int32).max, steps)
        return jnp.exp(steps.astype(jnp.float32) * self.log_keep) * self.beta


def decay(beta: float, rho: float) -> Decay:
    """The decay of a beta_0 and a rho, its logarithm computed in double precision.

    Raises:
      ValueError: if beta is not a finite float32 or rho is not in [0, 1).
    """
    if not abs(beta) <= checks.FLOAT32_MAX:
        raise ValueError(f"beta must be a finite 32-bit number, but it is {beta}")
    if not 0.0 <= rho < 1.0:
        raise ValueError(f"rho must be at least 0 and below 1, but it is {rho}")
    # NumPy's, because options are checked here before JAX may choose its devices.
    return Decay(np.float32(beta), np.float32(math.log1p(-rho)))


def exponential_decay(beta: float, rho: float) -> Schedule:
    """Decays as beta_t = beta (1 - rho)^t, t in agent steps (Algorithm 1).

    Computed as exp(t log(1 - rho)): good to a relative 2e-5 wherever beta_t / beta is a normal
    float32, for every t below 2^31.

    Example:
      >>> from re3_jax.schedules import exponential_decay
      >>> beta = exponential_decay(0.05, rho=1e-5)
      >>> f"{beta(0):.4f} {beta(100_000):.4f}"
      '0.0500 0.0184'

    Raises:
      ValueError: if beta is not a finite float32 or rho is not in [0, 1).
    """
    return decay(beta, rho).at


def unweighted(options: Options) -> Options:
    """A bonus's options with beta_t = 1, so that its reward is r_int itself (Equation 3).

    Options without `beta` or `rho` keep what they have.
    """
    names = {item.name for item in dataclasses.fields(options)}
    one = {"beta": 1.0, "rho": 0.0}
    return dataclasses.replace(options, **{name: one[name] for name in one.keys() & names})
