"""Transforms of intrinsic rewards, for use with `chain`."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from re3_jax import running_stats
from re3_jax.intrinsic.base import Info, RewardTransform
from re3_jax.running_stats import RunningStats
from re3_jax.schedules import Decay, Schedule

RunningStd = Literal["exact", "released", "released_dreamer"]
"""Exact, or the recursion of the authors' code: in PyTorch, or in their Dreamer."""


def normalize_by_running_std(variant: RunningStd = "exact") -> RewardTransform:
    """Divides rewards by the running standard deviation of all rewards seen; subtracts no mean.

    A batch first updates the statistics and is then divided by them, as in the authors' code. While
    the standard deviation is 0 (all rewards so far are equal), rewards pass unchanged. Reports
    `running_std`.

    Args:
      variant: `exact` for the population standard deviation of everything seen, `released`
        for the authors' recursion (see `running_stats`), `released_dreamer` for that of their
        Dreamer, with the population variance of each batch.

    Raises:
      ValueError: if the variant is unknown.
    """
    init: Callable[[], RunningStats]
    update: Callable[[RunningStats, Float[Array, " batch"]], RunningStats]
    if variant == "exact":
        init, update = running_stats.init, running_stats.update
    elif variant in get_args(RunningStd):
        init = running_stats.init_released
        update = partial(running_stats.update_released, unbiased=variant == "released")
    else:
        choices = ", ".join(get_args(RunningStd))
        raise ValueError(f"unknown running std {variant!r}: choose one of {choices}")

    def apply(stats: RunningStats, reward: Float[Array, " batch"], agent_steps: Int[Array, ""]):
        stats = update(stats, reward)
        std = running_stats.std(stats)
        return reward / jnp.where(std > 0, std, 1.0), stats

    def report(stats: RunningStats, agent_steps: Int[Array, ""]) -> Info:
        return {"running_std": running_stats.std(stats)}

    return RewardTransform(init, apply, report)


def normalize_by_running_mean() -> RewardTransform:
    """Divides rewards by the running mean of all rewards seen (APT; Liu and Abbeel, 2021).

    A batch first updates the mean and is then divided by it. While the mean is 0, rewards pass
    unchanged. Reports `running_mean`.
    """

    def apply(stats: RunningStats, reward: Float[Array, " batch"], agent_steps: Int[Array, ""]):
        stats = running_stats.update(stats, reward)
        return reward / jnp.where(stats.mean > 0, stats.mean, 1.0), stats

    return RewardTransform(
        running_stats.init, apply, lambda stats, agent_steps: {"running_mean": stats.mean}
    )


def power(exponent: float) -> RewardTransform:
    """Takes r^exponent of rewards that are not negative; for a positive exponent 0 stays 0."""
    return _stateless(lambda reward, agent_steps: jnp.power(reward, exponent))


def log1p() -> RewardTransform:
    """Takes log(1 + r), Equation 3: compresses large distances and keeps 0 at 0."""
    return _stateless(lambda reward, agent_steps: jnp.log1p(reward))


def scale_by_schedule(schedule: Schedule) -> RewardTransform:
    """Multiplies by beta_t (Equation 4), with t the batch's agent steps; reports `beta`.

    Raises:
      TypeError: `schedule` is no function, such as a number.
    """
    if not callable(schedule):
        raise TypeError(
            f"schedule is {schedule!r}: give a function of the agent steps, such as "
            "re3_jax.schedules.exponential_decay(0.05, rho=0.0) for a weight that is always 0.05"
        )
    return _scaled(lambda: (), lambda state, agent_steps: schedule(agent_steps))


def scale_by_decay(decay: Decay) -> RewardTransform:
    """Multiplies by beta_t as `scale_by_schedule` does, with beta_0 and rho in the state.

    So a program that was compiled for one weight serves every other.
    """
    return _scaled(lambda: jax.tree.map(jnp.asarray, decay), Decay.at)


def _scaled(
    init: Callable[[], Any], beta: Callable[[Any, Int[Array, ""]], Float[Array, ""]]
) -> RewardTransform:
    def apply(state, reward: Float[Array, " batch"], agent_steps: Int[Array, ""]):
        return beta(state, agent_steps) * reward, state

    def report(state, agent_steps: Int[Array, ""]) -> Info:
        return {"beta": jnp.asarray(beta(state, agent_steps), jnp.float32)}

    return RewardTransform(init, apply, report)


def _stateless(function) -> RewardTransform:
    return RewardTransform(
        init=lambda: (),
        apply=lambda state, reward, agent_steps: (function(reward, agent_steps), state),
    )
