"""Rewards a batch, trains the bonus on it and collects the diagnostics of both."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from re3_jax import batch_split
from re3_jax.intrinsic import diagnostics
from re3_jax.intrinsic.base import (
    Info,
    IntrinsicBatch,
    IntrinsicReward,
    IntrinsicState,
    Step,
    check_is_bonus,
    observe_rollout,
)
from re3_jax.intrinsic.rows import check_agent_steps, check_minibatches, check_rows
from re3_jax.varying import varying_like

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
    bonus: IntrinsicReward,
    state: IntrinsicState,
    batch: IntrinsicBatch,
    key: PRNGKeyArray,
    minibatches: Int[Array, "update minibatch"] | None = None,
) -> tuple[Float[Array, " batch"], IntrinsicState, Info]:
    """Rewards a batch, then trains the bonus on it (Algorithms 1 and 2).

    Args:
      bonus: the intrinsic reward.
      state: its state.
      batch: what is rewarded, all of it before any training.
      key: random stream of the training.
      minibatches: which rows of the batch each update learns from; by default one learns from all.

    Returns:
      The rewards beta_t r_i, the new state, and the merged infos of `reward`, `update` and
      `diagnostics.of_rewards`.

    Raises:
      TypeError: `bonus` is none, `batch` is no `IntrinsicBatch`, or a field of it no array.
      ValueError: the batch is empty, a field has other rows than the observations, `agent_steps`
        is not one whole number, or `minibatches` are no rows of the batch.
    """

    def computed(
        state: IntrinsicState, batch: IntrinsicBatch, key: PRNGKeyArray
    ) -> tuple[Float[Array, " batch"], IntrinsicState, Info]:
        _check_index(bonus, batch)
        reward, state, info = bonus.reward(state, batch)
        if minibatches is None:
            state, trained = bonus.update(state, batch, key)
        else:
            batch = batch._replace(targets=bonus.targets(state, batch))
            state, trained = _trained(bonus, state, batch, key, minibatches)
        found = diagnostics.of_rewards(reward)
        if both := found.keys() & (info.keys() | trained.keys()):
            raise ValueError(
                f"the bonus reports {', '.join(sorted(both))}, which is reported of every bonus: "
                "give it another name"
            )
        return reward, state, {**info, **trained, **found}

    check_is_bonus(bonus)
    check_rows(batch, IntrinsicBatch, axes=1)
    check_agent_steps(batch.agent_steps)
    if minibatches is not None:
        check_minibatches(minibatches, len(batch.observation))
    with jax.named_scope("bonus"):
        return batch_split.whole(computed)(state, batch, key)


def _check_index(bonus: IntrinsicReward, batch: IntrinsicBatch) -> None:
    """Refuses indices of another shape, whose rewards would be broadcast to the batch."""
    shape, index = (len(batch.observation), *bonus.index_shape), batch.required("bonus_index")
    if index.shape != shape or not jnp.issubdtype(index.dtype, jnp.integer):
        raise ValueError(
            f"bonus_index is {index.dtype}{list(index.shape)}, but this batch needs int32"
            f"{list(shape)}: give what observe returned for each transition"
        )


def _trained(
    bonus: IntrinsicReward,
    state: IntrinsicState,
    batch: IntrinsicBatch,
    key: PRNGKeyArray,
    minibatches: Int[Array, "update minibatch"],
) -> tuple[IntrinsicState, Info]:
    """An update for each minibatch; the means of what they report."""
    before, form = jax.tree.flatten(state)
    changes: list[bool] = []

    def find_changes(leaves, batch):
        after, info = bonus.update(
            jax.tree.unflatten(form, leaves), batch.rows(minibatches[0]), key
        )
        found = zip(jax.tree.leaves(after), leaves, strict=True)
        changes[:] = [new is not old for new, old in found]
        return info

    jax.eval_shape(find_changes, before, batch)
    if not any(changes):
        return bonus.update(state, batch, key)
    # Only what learning changes goes through the loop: XLA may copy the rest there.
    learned, infos = _looped(bonus, tuple(changes), state, batch, key, minibatches)
    state = jax.tree.unflatten(form, _merged(before, learned, changes))
    return state, jax.tree.map(lambda values: values.mean(0), infos)


def _merged(leaves: list[Array], learned: list[Array], changes: Sequence[bool]) -> list[Array]:
    """All leaves, those that learning changes being the learned ones."""
    ours = iter(learned)
    return [next(ours) if is_new else old for old, is_new in zip(leaves, changes, strict=True)]


# Outside `jit`, the loop, made anew by each call, would be compiled by each call.
@partial(jax.jit, static_argnums=(0, 1), inline=True)
def _looped(
    bonus: IntrinsicReward,
    changes: tuple[bool, ...],
    state: IntrinsicState,
    batch: IntrinsicBatch,
    key: PRNGKeyArray,
    minibatches: Int[Array, "update minibatch"],
) -> tuple[list[Array], Info]:
    """Those leaves that an update `changes` after one for each minibatch, and what each reports."""
    before, form = jax.tree.flatten(state)

    def changing(leaves):
        return [leaf for leaf, is_new in zip(leaves, changes, strict=True) if is_new]

    def step(learned, given):
        rows, key = given
        now = jax.tree.unflatten(form, _merged(before, learned, changes))
        after, info = bonus.update(now, batch.rows(rows), key)
        return changing(jax.tree.leaves(after)), info

    keys = jax.random.split(key, len(minibatches))
    learned = varying_like(changing(before), before, batch, keys)
    return jax.lax.scan(step, learned, (minibatches, keys))


def with_bonus(
    bonus: IntrinsicReward,
    intrinsic: IntrinsicState,
    batch: Batch,
    index: Int[Array, " batch *index"],
    agent_steps: Int[Array, ""],
    key: PRNGKeyArray,
    value_of: ValueOf | None = None,
    next_observation: Shaped[Array, " batch *observation"] | None = None,
    next_is_known: Bool[Array, " batch"] | None = None,
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
      next_observation: o_{t+1}, where the batch has a later one.
      next_is_known: as of `IntrinsicBatch`.
    """
    value = value_if(bonus.needs_value, value_of, batch.observation)
    to_reward = IntrinsicBatch(
        observation=batch.observation,
        action=batch.action,
        next_observation=batch.next_observation if next_observation is None else next_observation,
        bonus_index=index,
        agent_steps=agent_steps,
        value=value,
        next_is_known=next_is_known,
    )
    reward, intrinsic, info = reward_batch(bonus, intrinsic, to_reward, key)
    return batch._replace(bonus=reward), intrinsic, info


def reward_rollout(
    bonus: IntrinsicReward,
    intrinsic: IntrinsicState,
    steps: Step,
    agent_steps: Int[Array, ""],
    key: PRNGKeyArray,
    minibatches: Int[Array, "update minibatch"] | None = None,
) -> tuple[Float[Array, "time lane"], IntrinsicState, Info]:
    """Observes a rollout, rewards it and trains the bonus on it (Algorithm 2).

    Every frame of the rollout is observed before any is rewarded, so each finds itself and its
    rollout among its neighbours.

    Args:
      bonus: the intrinsic reward.
      intrinsic: the bonus's state.
      steps: what the lanes did; leaves have the leading axes time and lane.
      agent_steps: agent steps taken before it, by all lanes together.
      key: random stream of the bonus's updates.
      minibatches: as of `reward_batch`, of the flattened rollout.

    Returns:
      The rewards beta_t r_i, the new state, and the info of `reward_batch`.

    Raises:
      TypeError: `bonus` is none, `steps` is no `Step`, or a field of it no array.
      ValueError: there is no step, a field is of other steps than the observations, such as one
        that leads with lane and time, `agent_steps` is not one whole number, or `minibatches` are
        no rows of the rollout.
    """
    with jax.named_scope("bonus"):
        intrinsic, index = observe_rollout(bonus, intrinsic, steps)
    observation, action, following, rows, value = jax.tree.map(
        lambda leaf: leaf.reshape(-1, *leaf.shape[2:]),
        (steps.observation, steps.action, steps.next_observation, index, steps.value),
    )
    batch = IntrinsicBatch(observation, action, following, rows, agent_steps, value)
    reward, intrinsic, info = reward_batch(bonus, intrinsic, batch, key, minibatches)
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
    minibatches: Int[Array, "update minibatch"] | None = None,
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
    reward, intrinsic, info = reward_rollout(bonus, intrinsic, steps, agent_steps, key, minibatches)
    return rollout._replace(bonus=reward), intrinsic, info
