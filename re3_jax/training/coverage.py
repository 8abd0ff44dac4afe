"""How often a run has visited each of a device environment's states, where they can be counted."""

import jax
import jax.numpy as jnp
from jax.scipy.special import entr
from jaxtyping import Array, Int

from re3_jax.envs.base import DeviceEnv, EnvState
from re3_jax.training.train_state import Metrics

Visited = Int[Array, " state"] | None
"""int32, how often an action was taken in each state; None where they cannot be counted."""


def none_visited(env: DeviceEnv) -> Visited:
    """The table at the start of a run."""
    return None if env.states is None else jnp.zeros(env.states.num_states, jnp.int32)


def number(env: DeviceEnv, states: EnvState) -> Int[Array, " lane"] | None:
    """The numbers of states [lane]."""
    return None if env.states is None else jax.vmap(env.states.number)(states)


def counted(env: DeviceEnv, states: EnvState) -> Int[Array, " lane"] | None:
    """The numbers of states [lane] by which a bonus counts them."""
    return None if env.states is None else jax.vmap(env.states.counted)(states)


def visit(visited: Visited, numbers: Int[Array, "..."] | None) -> Visited:
    """Counts states in which an action is taken, by their `number`."""
    return None if visited is None else visited.at[numbers].add(1)


def metrics(env: DeviceEnv, visited: Visited) -> Metrics:
    """What has been visited since the run began, once an action was taken.

    `state_coverage` is the share of all reachable states, `state_entropy` the Shannon entropy of
    the shares of the visits in nats (the plug-in estimate), at most log `num_reachable`.
    """
    if env.states is None or visited is None:
        return {}
    return {
        "state_coverage": jnp.sum(visited > 0) / env.states.num_reachable,
        # Of all visits of a long run there are more than int32 counts.
        "state_entropy": jnp.sum(entr(visited / jnp.sum(visited, dtype=jnp.float32))),
    }
