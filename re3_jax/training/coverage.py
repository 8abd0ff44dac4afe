"""Which of a device environment's states a run has visited, where they can be counted."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from re3_jax.envs.base import DeviceEnv, EnvState
from re3_jax.training.train_state import Metrics

Visited = Bool[Array, " state"] | None
"""A table of all states; None where they cannot be counted."""


def none_visited(env: DeviceEnv) -> Visited:
    """The table at the start of a run."""
    return None if env.states is None else jnp.zeros(env.states.num_states, bool)


def number(env: DeviceEnv, states: EnvState) -> Int[Array, " lane"] | None:
    """The numbers of states [lane]."""
    return None if env.states is None else jax.vmap(env.states.number)(states)


def counted(env: DeviceEnv, states: EnvState) -> Int[Array, " lane"] | None:
    """The numbers of states [lane] by which a bonus counts them."""
    return None if env.states is None else jax.vmap(env.states.counted)(states)


def visit(visited: Visited, numbers: Int[Array, "..."] | None) -> Visited:
    """Marks states in which an action is taken, by their `number`."""
    return None if visited is None else visited.at[numbers].set(True)


def metrics(env: DeviceEnv, visited: Visited) -> Metrics:
    """`state_coverage`: the share of all reachable states in which an action was taken so far."""
    if env.states is None or visited is None:
        return {}
    return {"state_coverage": jnp.sum(visited) / env.states.num_reachable}
