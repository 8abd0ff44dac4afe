"""Transforms of intrinsic rewards, for use with `chain`."""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from re3_jax import running_stats
from re3_jax.intrinsic.base import Info, RewardTransform
from re3_jax.running_stats import RunningStats
from re3_jax.schedules import Schedule


def normalize_by_running_std(variant: Literal["exact", "released"] = "exact") -> RewardTransform:
    """Divides rewards by the running standard deviation of all rewards seen; subtracts no mean.

    A batch first updates the statistics and is then divided by them, as in the authors' code. While
    the standard deviation is 0 (all rewards so far are equal), rewards pass unchanged. Reports
    `running_std`.

    Args:
      variant: `exact` for the population standard deviation of everything seen, `released`
        for the authors' recursion (see `running_stats`).

    Raises:
      ValueError: if the variant is unknown.
    """
    if variant == "exact":
        init, update = running_stats.init, running_stats.update
    elif variant == "released":
        init, update = running_stats.init_released, running_stats.update_released
    else:
        raise ValueError(f"unknown running std {variant!r}: choose exact or released")

    def apply(stats: RunningStats, reward: Float[Array, " batch"], agent_steps: Int[Array, ""]):
        stats = update(stats, reward)
        std = running_stats.std(stats)
        return reward / jnp.where(std > 0, std, 1.0), stats

    def report(stats: RunningStats, agent_steps: Int[Array, ""]) -> Info:
        return {"running_std": running_stats.std(stats)}

    return RewardTransform(init, apply, report)


def log1p() -> RewardTransform:
    """Takes log(1 + r), Equation 3: compresses large distances and keeps 0 at 0."""
    return _stateless(lambda reward, agent_steps: jnp.log1p(reward))


def scale_by_schedule(schedule: Schedule) -> RewardTransform:
    """Multiplies by beta_t (Equation 4), with t the batch's agent steps; reports `beta`."""

    def report(state: tuple[()], agent_steps: Int[Array, ""]) -> Info:
        return {"beta": jnp.asarray(schedule(agent_steps), jnp.float32)}

    weighed = _stateless(lambda reward, agent_steps: schedule(agent_steps) * reward)
    return weighed._replace(report=report)


def _stateless(function) -> RewardTransform:
    return RewardTransform(
        init=lambda: (),
        apply=lambda state, reward, agent_steps: (function(reward, agent_steps), state),
    )
