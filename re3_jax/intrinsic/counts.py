"""Exact counts, the oracle of a task that numbers its states: r_t = 1 / sqrt(N(s_t)).

N counts how often an action was taken in s_t, this time included: in the whole run (the bonus of
Strehl and Littman, 2008, without actions), or in the episode so far. The agent does not see the
number of the state, so no other bonus can use it.

Lifelong counts are those at the time a batch is rewarded, all of its steps included. Episodic ones
are stored when the step is observed. A number that is no state of the task's is counted nowhere,
and its step is paid NaN.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from re3_jax import checks
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.intrinsic import weight, whole_numbers
from re3_jax.intrinsic.base import Info, IntrinsicBatch, IntrinsicReward, Step, one_by_one
from re3_jax.intrinsic.weight import ScaledConfig
from re3_jax.replay import episode_memory, value_ring
from re3_jax.replay.value_ring import ValueRing

NO_COUNT = -1
"""In place of the count of what is no state; its root is NaN."""


@dataclass(frozen=True, kw_only=True)
class CountsConfig(ScaledConfig):
    """Options of the bonus beta_t / sqrt(N(s_t)).

    Attributes:
      episodic: count in each episode instead of the whole run.
    """

    beta: float = 0.01
    episodic: bool = False


@inherits()
class CountsState(NamedTuple):
    """State of the bonus; a fine-tuned run counts afresh, because its states are other ones.

    Attributes:
      visits: per state; of each lane's episode with `episodic`.
      stored: of the stored steps the number of the state, or N(s_t) with `episodic`.
    """

    visits: Int[Array, "*lane state"]
    stored: ValueRing


def counts(config: CountsConfig, num_stored: int) -> IntrinsicReward:
    """The bare bonus 1 / sqrt(N), for the newest `num_stored` steps.

    Raises:
      ValueError: if the options are of another class.
    """
    checks.made_with(CountsConfig, config, "counts")

    def init(key: PRNGKeyArray, spec: EnvSpec, num_lanes: int = 1) -> CountsState:
        del key
        if spec.num_states is None:
            raise ValueError(
                f"{spec.task} does not number its states, so they cannot be counted: choose re3 or "
                "another bonus"
            )
        lanes = (num_lanes,) if config.episodic else ()
        visits = jnp.zeros((*lanes, spec.num_states), jnp.int32)
        return CountsState(visits, value_ring.init(num_stored, jnp.int32))

    def observe(state: CountsState, step: Step) -> tuple[CountsState, Int[Array, " lane"]]:
        number = _checked(step.required("state_number"), state.visits.shape[-1])
        if not config.episodic:
            stored, index = value_ring.add(state.stored, number)
            visits = state.visits.at[number].add(1, mode="drop")
            return CountsState(visits, stored), index
        episode_memory.check_lanes(len(state.visits), len(number))
        lane = jnp.arange(len(number))
        visits = state.visits.at[lane, number].add(1, mode="drop")
        count = visits.at[lane, number].get(mode="fill", fill_value=NO_COUNT)
        stored, index = value_ring.add(state.stored, count)
        return CountsState(jnp.where(step.ended[:, None], 0, visits), stored), index

    def reward(
        state: CountsState, batch: IntrinsicBatch
    ) -> tuple[Float[Array, " batch"], CountsState, Info]:
        found = state.stored.values[batch.required("bonus_index")]
        if config.episodic:
            count = found
        else:
            visits = jnp.asarray(state.visits)
            count = visits.at[found].get(mode="fill", fill_value=NO_COUNT)
        return 1.0 / jnp.sqrt(count.astype(jnp.float32)), state, {}

    def update(
        state: CountsState, batch: IntrinsicBatch, key: PRNGKeyArray
    ) -> tuple[CountsState, Info]:
        del batch, key
        return state, {}

    def restart(state: CountsState, lanes: Bool[Array, " lane"]) -> CountsState:
        if not config.episodic:
            return state
        return state._replace(visits=jnp.where(lanes[:, None], 0, state.visits))

    of_rollout = one_by_one(observe) if config.episodic else None
    return IntrinsicReward(
        init, observe, reward, update, observe_rollout=of_rollout, restart=restart
    )


def _checked(number: Int[Array, " lane"], num_states: int) -> Int[Array, " lane"]:
    """Numbers of states; one that the task does not have as `num_states`, where none is counted.

    Raises:
      ValueError: they are no whole numbers.
    """
    if not jnp.issubdtype(number.dtype, jnp.integer):
        raise ValueError(
            f"state_number is {number.dtype}: give whole numbers from 0 to {num_states - 1}"
        )
    return whole_numbers.below(num_states, number)


def from_config(config: CountsConfig, num_stored: int) -> IntrinsicReward:
    """The complete bonus: 1 / sqrt(N), normalisation, beta_t.

    Args:
      config: options.
      num_stored: steps that an update can learn from: those of a rollout, or those of a replay.
    """
    return weight.scaled(config, counts(config, num_stored))
