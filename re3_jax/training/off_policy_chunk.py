"""What the device loops of off-policy agents share: lanes that act, updates, a chunk of steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int, Shaped

from re3_jax.training.episodes import EpisodeTotals, episode_metrics
from re3_jax.training.learner import Metrics, OffPolicyState
from re3_jax.training.train_state import Counters, Lanes


class ActingLanes(NamedTuple):
    """The environments of one seed, and what each is about to do.

    Attributes:
      lanes: as they are now.
      action: chosen, not yet taken.
    """

    lanes: Lanes
    action: Shaped[Array, " lane *action"]


TrainStep = Callable[
    [OffPolicyState], tuple[OffPolicyState, tuple[Metrics, EpisodeTotals, Float[Array, ""]]]
]
"""State -> state, sums of the updates' metrics, totals of episodes, mean reward of the step."""


def train_chunk(
    train_step: TrainStep, state: OffPolicyState, chunk_steps: int
) -> tuple[OffPolicyState, Metrics]:
    """`chunk_steps` steps of all lanes.

    Metrics of updates are means over those of the chunk, NaN if there were none; episode
    statistics over the episodes that ended in it, likewise.
    """
    # All seeds are equally far. Said so, the branches and the loops of a step, which ask for
    # nothing but counters, stay branches under `vmap`; else all of them would be computed.
    counters = Counters(*(same_for_all_seeds(counter) for counter in state.counters))
    state, (sums, totals, reward) = jax.lax.scan(
        lambda state, _: train_step(state), state._replace(counters=counters), length=chunk_steps
    )
    num_updates = state.counters.updates - counters.updates
    metrics = jax.tree.map(lambda total: jnp.sum(total) / num_updates, sums)
    return state, {**metrics, "reward_mean": jnp.mean(reward), **episode_metrics(totals)}


def repeat_updates(
    update: Callable[..., tuple[Any, ...]], num_updates: Int[Array, ""], carry: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The same update so many times, in a loop that passes rings on without a copy.

    Args:
      update: (number of the update, *carry) -> (*carry, metrics).
      num_updates: how many, perhaps none; traced.
      carry: what updates change.

    Returns:
      (*carry, sums of the metrics).
    """
    metrics = jax.eval_shape(update, jnp.int32(0), *carry)[-1]
    zeros = jax.tree.map(lambda metric: jnp.zeros(metric.shape, metric.dtype), metrics)

    def step(number: Int[Array, ""], carry: tuple[Any, ...]) -> tuple[Any, ...]:
        *parts, sums = carry
        *parts, metrics = update(number, *parts)
        return *parts, jax.tree.map(jnp.add, sums, metrics)

    return jax.lax.fori_loop(0, num_updates, step, (*carry, zeros))


@custom_vmap
def same_for_all_seeds(counter: Int[Array, ""]) -> Int[Array, ""]:
    """The counter, which under `vmap` is taken to be that of the first seed."""
    return counter


@same_for_all_seeds.def_vmap
def _first_of_all(axis_size: int, in_batched: list[bool], counter: Int[Array, "..."]):
    del axis_size
    return (counter[0] if in_batched[0] else counter), False
