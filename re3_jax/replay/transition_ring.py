"""A replay of transitions with flat observations, written by several lanes at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from re3_jax.envs.base import EnvSpec
from re3_jax.replay.transitions import Transitions


class TransitionRing(NamedTuple):
    """First-in-first-out store; rows at or past `num_valid` are zero and not yet written.

    Attributes:
      observation: o_t.
      action: a_t.
      reward: task reward.
      discount: 0 where the task ended at this step, else 1.
      next_observation: o_{t+1} of the same episode.
      bonus_index: the index that the bonus returned for o_t.
      cursor: row that the next insertion writes first.
      num_valid: rows written so far, at most the capacity.
    """

    observation: Shaped[Array, " capacity *observation"]
    action: Shaped[Array, " capacity *action"]
    reward: Float[Array, " capacity"]
    discount: Float[Array, " capacity"]
    next_observation: Shaped[Array, " capacity *observation"]
    bonus_index: Int[Array, " capacity *index"]
    cursor: Int[Array, ""]
    num_valid: Int[Array, ""]


def init(capacity: int, spec: EnvSpec, index_shape: tuple[int, ...] = ()) -> TransitionRing:
    """An empty ring of `capacity` transitions of the task.

    `index_shape` is that of the bonus's index of one step.

    Raises:
      ValueError: if `capacity` is not positive.
    """
    if capacity < 1:
        raise ValueError(
            f"a ring of {capacity} transitions cannot hold anything: it must be at least 1"
        )
    space = spec.action_space
    return TransitionRing(
        observation=jnp.zeros((capacity, *spec.observation_shape), spec.observation_dtype),
        action=jnp.zeros((capacity, *space.shape), space.dtype),
        reward=jnp.zeros(capacity, jnp.float32),
        discount=jnp.zeros(capacity, jnp.float32),
        next_observation=jnp.zeros((capacity, *spec.observation_shape), spec.observation_dtype),
        bonus_index=jnp.zeros((capacity, *index_shape), jnp.int32),
        cursor=jnp.zeros((), jnp.int32),
        num_valid=jnp.zeros((), jnp.int32),
    )


def add(
    ring: TransitionRing,
    observation: Shaped[Array, " batch *observation"],
    action: Shaped[Array, " batch *action"],
    reward: Float[Array, " batch"],
    discount: Float[Array, " batch"],
    next_observation: Shaped[Array, " batch *observation"],
    bonus_index: Int[Array, " batch *index"],
) -> TransitionRing:
    """Writes one transition of each lane over the oldest rows.

    `bonus_index` is the index that the bonus's `observe` returned.

    Raises:
      ValueError: if there are more transitions than rows in the ring.
    """
    capacity, batch_size = ring.reward.shape[0], reward.shape[0]
    if batch_size > capacity:
        raise ValueError(
            f"a batch of {batch_size} transitions does not fit a ring of {capacity} rows: "
            "make the replay at least as large as the number of lanes"
        )
    row = (ring.cursor + jnp.arange(batch_size, dtype=jnp.int32)) % capacity

    def write(rows: Array, values: Array) -> Array:
        return rows.at[row].set(values, unique_indices=True, mode="promise_in_bounds")

    return TransitionRing(
        observation=write(ring.observation, observation),
        action=write(ring.action, action),
        reward=write(ring.reward, reward),
        discount=write(ring.discount, discount),
        next_observation=write(ring.next_observation, next_observation),
        bonus_index=write(ring.bonus_index, bonus_index),
        cursor=(ring.cursor + batch_size) % capacity,
        num_valid=jnp.minimum(ring.num_valid + batch_size, capacity),
    )


def sample(
    key: PRNGKeyArray, ring: TransitionRing, batch_size: int
) -> tuple[Transitions, Int[Array, " batch *index"]]:
    """Draws transitions uniformly, with replacement; also returns the index stored with each.

    Bonuses are zero. The ring must hold a transition; an empty ring gives zeros.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> from re3_jax.envs.base import Discrete, EnvSpec
      >>> from re3_jax.replay import transition_ring
      >>> spec = EnvSpec("line", (1,), np.dtype(np.float32), Discrete(2), max_agent_steps=9)
      >>> ring = transition_ring.init(capacity=100, spec=spec)
      >>> seen, ones, index = jnp.ones((4, 1)), jnp.ones(4), jnp.arange(4)
      >>> ring = transition_ring.add(ring, seen, index % 2, 5 * ones, ones, seen + 1, index)
      >>> batch, index = transition_ring.sample(jax.random.key(0), ring, batch_size=3)
      >>> batch.reward.tolist(), batch.next_observation.shape
      ([5.0, 5.0, 5.0], (3, 1))
    """
    row = jax.random.randint(key, (batch_size,), 0, jnp.maximum(ring.num_valid, 1))
    return (
        Transitions(
            observation=ring.observation[row],
            action=ring.action[row],
            reward=ring.reward[row],
            bonus=jnp.zeros(batch_size, jnp.float32),
            discount=ring.discount[row],
            next_observation=ring.next_observation[row],
        ),
        ring.bonus_index[row],
    )
