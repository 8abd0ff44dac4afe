"""The seven actions of MiniGrid, with Farama's rules for every object."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from re3_jax.envs.device.minigrid.codes import (
    BALL,
    BOX,
    CLOSED,
    DOOR,
    DROP,
    EMPTY,
    FLOOR,
    FORWARD,
    GOAL,
    KEY,
    LAVA,
    LOCKED,
    OPEN,
    PICK_UP,
    TOGGLE,
    Scalar,
    colour,
    content,
    door_state,
    kind,
)
from re3_jax.envs.device.minigrid.pose import front_cell, turned
from re3_jax.envs.device.minigrid.world import Pose, World, pack_pose, unpack_pose


class Ending(NamedTuple):
    """Whether an action ends the episode.

    Attributes:
      succeeded: the mission is completed.
      terminated: the mission is completed, or the agent stepped into lava.
    """

    succeeded: Bool[Array, ""]
    terminated: Bool[Array, ""]


def act(world: World, action: Scalar, width: int) -> tuple[World, Ending]:
    """Executes an action in a grid of `width` columns.

    The agent walks over empty cells, floor, open doors, goals and lava. It picks up a key, ball or
    box if it carries nothing, and drops it on an empty cell. Toggling opens and closes doors, opens
    a locked one if the agent carries a key of its colour, and replaces a box by its content.
    """
    pose = unpack_pose(world.pose)
    x, y = front_cell(*pose)
    front = y * width + x
    cell = world.cells.at[front].get(mode="promise_in_bounds")
    what, state = kind(cell), door_state(cell)
    is_door, is_box = what == DOOR, what == BOX
    is_free = world.carried == EMPTY

    forward = action == FORWARD
    is_walkable = (cell == EMPTY) | (cell == GOAL) | (cell == LAVA) | (what == FLOOR)
    moves = forward & (is_walkable | (is_door & (state == OPEN)))
    reaches_goal = forward & (cell == GOAL)
    falls = forward & (cell == LAVA)

    is_portable = (what == KEY) | (what == BALL) | is_box
    picks_up = (action == PICK_UP) & is_portable & is_free
    drops = (action == DROP) & (cell == EMPTY) & ~is_free

    toggles = action == TOGGLE
    fits = (kind(world.carried) == KEY) & (colour(world.carried) == colour(cell))
    turns_door = toggles & is_door & ((state != LOCKED) | fits)
    opens_door = turns_door & (state != OPEN)
    opened = cell & 0xFFFF | OPEN << 16
    shut = cell & 0xFFFF | CLOSED << 16

    changed = jnp.where(picks_up, EMPTY, cell)
    changed = jnp.where(drops, world.carried, changed)
    changed = jnp.where(turns_door, jnp.where(opens_door, opened, shut), changed)
    changed = jnp.where(toggles & is_box, content(cell), changed)
    carried = jnp.where(picks_up, cell, jnp.where(drops, EMPTY, world.carried))

    # The mission of a task whose goal is a door names a door, and only then it ends the episode.
    named = world.mission & 0xFFFF
    takes_it = picks_up & (cell & 0xFFFF == named)
    opens_it = opens_door & (cell & 0xFFFF == named)
    succeeded = reaches_goal | takes_it | opens_it
    acted = World(
        # One pass over a small grid costs less on a CPU than a scatter.
        cells=jnp.where(jnp.arange(world.cells.shape[0]) == front, changed, world.cells),
        pose=pack_pose(
            Pose(
                x=jnp.where(moves, x, pose.x),
                y=jnp.where(moves, y, pose.y),
                direction=turned(pose.direction, action),
            )
        ),
        carried=carried,
        mission=world.mission,
        agent_steps=world.agent_steps + 1,
    )
    return acted, Ending(succeeded, succeeded | falls)
