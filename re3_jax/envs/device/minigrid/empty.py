"""MiniGrid-Empty-NxN."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from re3_jax.envs.base import DeviceEnv, TimeStep
from re3_jax.envs.device.minigrid.closed_form import (
    LARGEST_SIZE,
    at,
    on_border,
    pack_agent,
    projection,
    room,
    unpack_agent,
)
from re3_jax.envs.device.minigrid.codes import EMPTY, FORWARD, Image, Scalar, image
from re3_jax.envs.device.minigrid.episode import outcome, specification
from re3_jax.envs.device.minigrid.pose import Places, front_cell, turned


class EmptyState(NamedTuple):
    """State of one Empty environment.

    Attributes:
      agent: the packed `Agent` (which carries nothing and has no door).
      agent_steps: agent steps since the episode began.
    """

    agent: Scalar
    agent_steps: Scalar


def make(size: int) -> DeviceEnv:
    """Makes MiniGrid-Empty-NxN (paper: Empty-16x16).

    The agent starts at (1, 1) facing right and sees through walls, as in Farama's registered
    non-Random variants. The time limit is 4 N^2 agent steps.

    Args:
      size: width and height N in cells, the outer walls included: 3 to 128. (In Empty-3x3 the
        agent stands on the goal from the start and can only run out of time, as in Farama's.)

    Raises:
      ValueError: if the size is out of range.
    """
    if not isinstance(size, int) or not 3 <= size <= LARGEST_SIZE:
        raise ValueError(
            f"MiniGrid Empty cannot have size {size!r}: choose a whole number of cells "
            f"from 3 to {LARGEST_SIZE}"
        )
    spec, goal = specification(f"Empty-{size}x{size}", 4 * size**2), size - 2

    def begin() -> EmptyState:
        return EmptyState(agent=jnp.int32(1 | 1 << 8), agent_steps=jnp.int32(0))

    def observe(state: EmptyState) -> Image:
        agent = unpack_agent(state.agent)
        cells, _ = room(projection(agent), size)
        return image(jnp.where(at(0, 0), EMPTY, cells))

    def reset(key: PRNGKeyArray) -> tuple[EmptyState, Image]:
        del key
        state = begin()
        return state, observe(state)

    def step(state: EmptyState, action: Scalar, key: PRNGKeyArray) -> tuple[EmptyState, TimeStep]:
        del key
        agent = unpack_agent(state.agent)
        x, y = front_cell(agent.x, agent.y, agent.direction)
        forward = action == FORWARD
        moved = forward & ~on_border(x, y, size)
        terminated = forward & (x == goal) & (y == goal)
        agent = agent._replace(
            x=jnp.where(moved, x, agent.x),
            y=jnp.where(moved, y, agent.y),
            direction=turned(agent.direction, action),
        )
        stepped = EmptyState(pack_agent(agent), state.agent_steps + 1)
        reward, truncated = outcome(spec, stepped.agent_steps, terminated)
        done = terminated | truncated
        final_observation = observe(stepped)
        following = jax.tree.map(partial(jnp.where, done), begin(), stepped)
        return following, TimeStep(
            observation=jnp.where(done, observe(begin()), final_observation),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            final_observation=final_observation,
        )

    # The agent never acts at the goal, except in Empty-3x3, where it begins there.
    return DeviceEnv(spec, reset, step, places(size).countable(num_unreachable=int(size > 3)))


def places(size: int) -> Places:
    """Where the agent is in a state."""
    return Places(size - 2, size - 2, lambda state: state.agent)
