"""Rewards a batch, trains the bonus on it and collects the diagnostics of both."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax.intrinsic import diagnostics
from re3_jax.intrinsic.base import (
    Info,
    IntrinsicBatch,
    IntrinsicReward,
    IntrinsicState,
    Step,
    observe_rollout,
)

Batch = TypeVar("Batch", bound=Any)
"""A NamedTuple with the fields observation, action, next_observation and bonus."""

ValueOf = Callable[[Shaped[Array, " batch *observation"]], Float[Array, " batch"]]
"""V(o) as an agent estimates it now."""


def value_if(
    needed: bool, value_of: ValueOf | None, observation: Shaped[Array, " batch *observation"]
) -> Float[Array, " batch"] | None:
    """The value of each observation, or None where the bonus does not need it.

    Raises:
      ValueError: if the bonus needs it and the agent does not give it.
    """
    if not needed:
        return None
    if value_of is None:
        raise ValueError(
            "the bonus compares the agent's values of observations, which this agent does not "
            "give: choose another bonus or another agent"
        )
    with jax.named_scope("value"):
        return value_of(observation)


def reward_batch(
    bonus: IntrinsicReward, state: IntrinsicState, batch: IntrinsicBatch, key: PRNGKeyArray
) -> tuple[Float[Array, " batch"], IntrinsicState, Info]:
    """Rewards a batch, then trains the bonus on it (Algorithms 1 and 2).

    Returns:
      The rewards beta_t r_i, the new state, and the merged infos of `reward`, `update` and
      `diagnostics.of_rewards`.
    """
    with jax.named_scope("bonus"):
        reward, state, info = bonus.reward(state, batch)
        state, trained = bonus.update(state, batch, key)
    return reward, state, {**info, **trained, **diagnostics.of_rewards(reward)}


def with_bonus(
    bonus: IntrinsicReward,
    intrinsic: IntrinsicState,
    batch: Batch,
    index: Int[Array, " batch *index"],
    agent_steps: Int[Array, ""],
    key: PRNGKeyArray,
    value_of: ValueOf | None = None,
) -> tuple[Batch, IntrinsicState, Info]:
    """The batch with its intrinsic rewards, computed anew against all latents stored (Algorithm 1).

    Args:
      bonus: the intrinsic reward; it also learns from the batch.
      intrinsic: the bonus's state.
      batch: what was sampled.
      index: what the bonus returned when each transition was stored.
      agent_steps: agent steps taken so far.
      key: random stream of the bonus's update.
      value_of: the agent's values, called only if the bonus needs them.
    """
    value = value_if(bonus.needs_value, value_of, batch.observation)
    transitions = batch.observation, batch.action, batch.next_observation
    reward, intrinsic, info = reward_batch(
        bonus, intrinsic, IntrinsicBatch(*transitions, index, agent_steps, value), key
    )
    return batch._replace(bonus=reward), intrinsic, info


def reward_rollout(
    bonus: IntrinsicReward,
    intrinsic: IntrinsicState,
    steps: Step,
    agent_steps: Int[Array, ""],
    key: PRNGKeyArray,
) -> tuple[Float[Array, "time lane"], IntrinsicState, Info]:
    """Observes a rollout, rewards it and trains the bonus on it (Algorithm 2).

    Every frame of the rollout is observed before any is rewarded, so each finds itself and its
    rollout among its neighbours.

    Args:
      bonus: the intrinsic reward.
      intrinsic: the bonus's state.
      steps: what the lanes did; leaves have the leading axes time and lane.
      agent_steps: agent steps taken before it.
      key: random stream of the bonus's update.

    Returns:
      The rewards beta_t r_i, the new state, and the info of `reward_batch`.
    """
    with jax.named_scope("bonus"):
        intrinsic, index = observe_rollout(bonus, intrinsic, steps)
    observation, action, following, rows, value = jax.tree.map(
        lambda leaf: leaf.reshape(-1, *leaf.shape[2:]),
        (steps.observation, steps.action, steps.next_observation, index, steps.value),
    )
    batch = IntrinsicBatch(observation, action, following, rows, agent_steps, value)
    reward, intrinsic, info = reward_batch(bonus, intrinsic, batch, key)
    return reward.reshape(index.shape[:2]), intrinsic, info


Steps = TypeVar("Steps", bound=Any)
"""A NamedTuple with the fields of `Step` [time, lane, ...], `reward` and `bonus`."""


def rollout_with_bonus(
    bonus: IntrinsicReward,
    intrinsic: IntrinsicState,
    rollout: Steps,
    agent_steps: Int[Array, ""],
    key: PRNGKeyArray,
    value_of: ValueOf | None = None,
) -> tuple[Steps, IntrinsicState, Info]:
    """The rollout of an on-policy agent with its intrinsic rewards, see `reward_rollout`.

    `value_of` are the agent's values, called only if the bonus needs them.
    """
    needed, (time, lanes) = bonus.needs_value or bonus.needs_stored_value, rollout.reward.shape
    flat = rollout.observation.reshape(time * lanes, *rollout.observation.shape[2:])
    value = value_if(needed, value_of, flat)
    steps = Step(
        rollout.observation,
        rollout.action,
        rollout.next_observation,
        rollout.terminated,
        rollout.truncated,
        rollout.state_number,
        None if value is None else value.reshape(time, lanes),
    )
    reward, intrinsic, info = reward_rollout(bonus, intrinsic, steps, agent_steps, key)
    return rollout._replace(bonus=reward), intrinsic, info
