"""Any MiniGrid task as a `DeviceEnv`, from what draws its layouts."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray

from re3_jax.envs.base import DeviceEnv, TimeStep
from re3_jax.envs.device.minigrid.actions import act
from re3_jax.envs.device.minigrid.codes import (
    DOOR,
    LOCKED,
    OPEN,
    VIEW,
    Image,
    Scalar,
    door_state,
    kind,
)
from re3_jax.envs.device.minigrid.episode import outcome, specification
from re3_jax.envs.device.minigrid.pose import Places
from re3_jax.envs.device.minigrid.view import observe
from re3_jax.envs.device.minigrid.world import World


class Layouts(NamedTuple):
    """The layouts of a task, and what else defines it.

    Attributes:
      width: columns of the grid, the outer walls included.
      height: rows of the grid.
      max_agent_steps: time limit of an episode in agent steps.
      missions: Farama's text for each `World.mission`.
      draw: key -> (whether a layout was found, the world at its beginning). Where none was found,
        Farama's generator starts over, too, and the world means nothing.
      num_unreachable: cells within the outer walls at which the agent never acts, in no layout.
      doors: no layout has more.
      locks: no layout has more doors that are locked.
      carried: kinds of the objects that the agent can carry into its next action.
    """

    width: int
    height: int
    max_agent_steps: int
    missions: Mapping[int, str]
    draw: Callable[[PRNGKeyArray], tuple[Bool[Array, ""] | bool, World]]
    num_unreachable: int
    doors: int = 0
    locks: int = 0
    carried: tuple[int, ...] = ()


def make(name: str, layouts: Layouts) -> DeviceEnv:
    """The environment `minigrid:name`."""
    spec = specification(name, layouts.max_agent_steps)
    width, height = layouts.width, layouts.height

    def begin(
        is_due: Bool[Array, ""] | bool, key: PRNGKeyArray, world: World, view: Image
    ) -> tuple[World, Image]:
        """A new world and its first view where one is due, else the given ones.

        A loop and not a `cond`: mapped over lanes, a `cond` draws a layout in every step, a loop
        only until no lane is due, and the layouts of most tasks take longer than a step.
        """

        def attempt(
            carry: tuple[Bool[Array, ""], Scalar, World, Image],
        ) -> tuple[Bool[Array, ""], Scalar, World, Image]:
            _, attempts, _, _ = carry
            is_found, drawn = layouts.draw(jax.random.fold_in(key, attempts))
            return ~jnp.asarray(is_found), attempts + 1, drawn, observe(drawn, width, height)

        carry = jnp.asarray(is_due), jnp.int32(0), world, view
        _, _, world, view = jax.lax.while_loop(lambda carry: carry[0], attempt, carry)
        return world, view

    def reset(key: PRNGKeyArray) -> tuple[World, Image]:
        nothing = jnp.int32(0)
        cells = jnp.zeros(width * height, jnp.int32)
        world = World(cells, nothing, nothing, nothing, nothing)
        return begin(True, key, world, jnp.zeros((VIEW, VIEW, 3), jnp.uint8))

    def step(world: World, action: Scalar, key: PRNGKeyArray) -> tuple[World, TimeStep]:
        acted, ending = act(world, action, width)
        reward, truncated = outcome(spec, acted.agent_steps, ending.succeeded)
        final_observation = observe(acted, width, height)
        is_over = ending.terminated | truncated
        following, observation = begin(is_over, key, acted, final_observation)
        return following, TimeStep(
            observation=observation,
            reward=reward,
            terminated=ending.terminated,
            truncated=truncated,
            final_observation=final_observation,
        )

    states = places(layouts).countable(layouts.num_unreachable)
    if layouts.doors:
        num_objects = (len(layouts.carried) + 1) * (layouts.locks + 1) * (layouts.doors + 1)
        states = states._replace(objects=partial(_objects, layouts), num_objects=num_objects)
    return DeviceEnv(spec, reset, step, states)


def _objects(layouts: Layouts, world: World) -> Scalar:
    """The number of the kind carried, how many doors are locked, and how many open.

    Which doors these are is no part of it: they are elsewhere in the next layout, and a count would
    pay for every set of open doors.
    """
    is_door, state = kind(world.cells) == DOOR, door_state(world.cells)
    locked = jnp.sum(is_door & (state == LOCKED), dtype=jnp.int32)
    opened = jnp.sum(is_door & (state == OPEN), dtype=jnp.int32)
    what = kind(world.carried)
    carried = sum((jnp.int32(n) * (what == one) for n, one in enumerate(layouts.carried, 1)), 0)
    return (carried * (layouts.locks + 1) + locked) * (layouts.doors + 1) + opened


def places(layouts: Layouts) -> Places:
    """Where the agent is in a world."""
    return Places(layouts.width - 2, layouts.height - 2, lambda world: world.pose)
