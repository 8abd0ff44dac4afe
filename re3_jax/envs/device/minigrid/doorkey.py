"""MiniGrid-DoorKey-NxN."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray

from re3_jax.envs.base import DeviceEnv, TimeStep
from re3_jax.envs.device.minigrid.closed_form import (
    LARGEST_SIZE,
    OUT_OF_VIEW,
    Agent,
    at,
    on_border,
    pack_agent,
    projection,
    room,
    unpack_agent,
)
from re3_jax.envs.device.minigrid.codes import (
    CLOSED,
    DOOR,
    DROP,
    EMPTY,
    FORWARD,
    KEY,
    LOCKED,
    OPEN,
    PICK_UP,
    TOGGLE,
    UNSEEN,
    VIEW,
    WALL,
    YELLOW,
    Image,
    Scalar,
    image,
)
from re3_jax.envs.device.minigrid.draws import below, draw_words
from re3_jax.envs.device.minigrid.episode import outcome, specification
from re3_jax.envs.device.minigrid.pose import AHEAD, RIGHTWARD, Places, front_cell, turned

_YELLOW_DOOR = DOOR | YELLOW << 8
_YELLOW_KEY = KEY | YELLOW << 8
_KEY_AND_DOOR = 2 * 3


class DoorKeyState(NamedTuple):
    """State of one DoorKey environment.

    Attributes:
      agent: the packed `Agent`, with the key's whereabouts and the door's state.
      objects: the packed `Objects`.
      agent_steps: agent steps since the episode began.
    """

    agent: Scalar
    objects: Scalar
    agent_steps: Scalar


class Objects(NamedTuple):
    """Positions of the objects in DoorKey.

    Attributes:
      wall_x: column of the wall that splits the room.
      door_y: row of the door in that wall.
      key_x: column of the key (its last one on the floor while it is carried).
      key_y: row of the key (its last one on the floor while it is carried).
    """

    wall_x: Scalar
    door_y: Scalar
    key_x: Scalar
    key_y: Scalar


def pack_objects(objects: Objects) -> Scalar:
    """Packs `Objects` into one int32."""
    return objects.wall_x | objects.door_y << 8 | objects.key_x << 16 | objects.key_y << 24


def unpack_objects(word: Scalar) -> Objects:
    """Inverts `pack_objects`."""
    return Objects(word & 255, word >> 8 & 255, word >> 16 & 255, word >> 24)


def make(size: int) -> DeviceEnv:
    """Makes MiniGrid-DoorKey-NxN (paper: DoorKey-6x6 and DoorKey-8x8).

    Layouts have the distribution of Farama's generator: the wall's column, the agent's pose, the
    door's row and the key's cell are random. The time limit is 10 N^2 agent steps.

    Args:
      size: width and height N in cells, the outer walls included: 5 to 128.

    Raises:
      ValueError: if the size is out of range.
    """
    if not isinstance(size, int) or not 5 <= size <= LARGEST_SIZE:
        raise ValueError(
            f"MiniGrid DoorKey cannot have size {size!r}: choose a whole number of cells "
            f"from 5 to {LARGEST_SIZE}"
        )
    spec, goal = specification(f"DoorKey-{size}x{size}", 10 * size**2), size - 2

    def observe(state: DoorKeyState) -> Image:
        agent, objects = unpack_agent(state.agent), unpack_objects(state.objects)
        project = projection(agent)
        cells, inside = room(project, size)
        wall = project(objects.wall_x, agent.y)
        door = project(objects.wall_x, objects.door_y)
        key_ahead, key_right = project(objects.key_x, objects.key_y)
        faces_wall = (agent.direction & 1) == 0
        on_wall = (AHEAD == jnp.where(faces_wall, wall[0], OUT_OF_VIEW)) | (
            RIGHTWARD == jnp.where(faces_wall, OUT_OF_VIEW, wall[1])
        )
        # A carried key is drawn where the agent stands.
        carried = agent.carrying == 1
        at_key = at(jnp.where(carried, 0, key_ahead), jnp.where(carried, 0, key_right))
        cells = jnp.where(on_wall, WALL, cells)
        cells = jnp.where(at(*door), _YELLOW_DOOR | agent.door << 16, cells)
        cells = jnp.where(at(0, 0), EMPTY, cells)
        cells = jnp.where(at_key, _YELLOW_KEY, cells)
        visible = _seen(faces_wall, wall, door, agent.door == OPEN)
        return image(jnp.where(visible & inside, cells, UNSEEN))

    def reset(key: PRNGKeyArray) -> tuple[DoorKeyState, Image]:
        state = _draw_layout(key, size)
        return state, observe(state)

    def step(
        state: DoorKeyState, action: Scalar, key: PRNGKeyArray
    ) -> tuple[DoorKeyState, TimeStep]:
        agent, objects = unpack_agent(state.agent), unpack_objects(state.objects)
        x, y = front_cell(agent.x, agent.y, agent.direction)
        carrying, is_open = agent.carrying == 1, agent.door == OPEN
        at_goal = (x == goal) & (y == goal)
        at_door = (x == objects.wall_x) & (y == objects.door_y)
        at_wall = on_border(x, y, size) | ((x == objects.wall_x) & ~at_door)
        at_key = (x == objects.key_x) & (y == objects.key_y) & ~carrying

        forward = action == FORWARD
        moved = forward & ~(at_wall | at_key | (at_door & ~is_open))
        terminated = forward & at_goal
        picked_up = (action == PICK_UP) & at_key
        dropped = (action == DROP) & carrying & ~(at_wall | at_door | at_goal)
        toggled = (action == TOGGLE) & at_door & (carrying | (agent.door != LOCKED))

        agent = Agent(
            x=jnp.where(moved, x, agent.x),
            y=jnp.where(moved, y, agent.y),
            direction=turned(agent.direction, action),
            carrying=(agent.carrying | picked_up) & ~dropped,
            door=jnp.where(toggled, jnp.where(is_open, CLOSED, OPEN), agent.door),
        )
        objects = objects._replace(
            key_x=jnp.where(dropped, x, objects.key_x), key_y=jnp.where(dropped, y, objects.key_y)
        )
        stepped = DoorKeyState(pack_agent(agent), pack_objects(objects), state.agent_steps + 1)
        reward, truncated = outcome(spec, stepped.agent_steps, terminated)
        done = terminated | truncated
        following = jax.tree.map(partial(jnp.where, done), _draw_layout(key, size), stepped)
        return following, TimeStep(
            observation=observe(following),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            final_observation=observe(stepped),
        )

    # The agent never acts at the goal nor, in DoorKey-5x5, in the one cell that is always wall.
    states = places(size).countable(num_unreachable=2 if size == 5 else 1)
    return DeviceEnv(
        spec, reset, step, states._replace(objects=_key_and_door, num_objects=_KEY_AND_DOOR)
    )


def places(size: int) -> Places:
    """Where the agent is in a state."""
    return Places(size - 2, size - 2, lambda state: state.agent)


def _key_and_door(state: DoorKeyState) -> Scalar:
    agent = unpack_agent(state.agent)
    return agent.door * 2 + agent.carrying


def _seen(
    faces_wall: Bool[Array, ""],
    wall: tuple[Scalar, Scalar],
    door: tuple[Scalar, Scalar],
    is_open: Bool[Array, ""],
) -> Bool[Array, "7 7"]:
    """Cells on the map that Farama's `process_vis` lets the agent see in DoorKey.

    `process_vis` floods each row of the view sideways through transparent cells, then lights the
    cells ahead of all reached ones, and their neighbours. Both rooms are rectangles, so the flood
    has a closed form: the agent's own room with its walls and, if the open door is in view, the
    part of the other room past the door (from the door's row on if the wall runs along the view,
    from the next row on if it runs across). From within the doorway, the agent sees the cells
    beside it and everything past the door.

    Args:
      faces_wall: whether the wall runs across the view (the agent faces left or right).
      wall: rows ahead and columns right of the agent at which the wall lies; the coordinate
        along which the wall runs is 0.
      door: rows ahead and columns right of the agent at which the door lies.
      is_open: whether the door is open.
    """
    wall_ahead, wall_right = wall
    door_ahead, door_right = door
    in_doorway = (wall_ahead == 0) & (wall_right == 0)
    front = jnp.where(wall_ahead > 0, wall_ahead, OUT_OF_VIEW)
    left = jnp.where(wall_right < 0, wall_right, -OUT_OF_VIEW)
    right = jnp.where(wall_right > 0, wall_right, OUT_OF_VIEW)
    front = jnp.where(in_doorway, 0, front)
    left = jnp.where(in_doorway, -1, left)
    right = jnp.where(in_doorway, 1, right)
    own_room = (front >= AHEAD) & (left <= RIGHTWARD) & (right >= RIGHTWARD)

    door_in_view = (door_ahead >= 0) & (door_ahead < VIEW) & (jnp.abs(door_right) <= VIEW // 2)
    past_door = jnp.where(faces_wall, door_ahead + 1, door_ahead)
    return own_room | (AHEAD >= jnp.where(is_open & door_in_view, past_door, OUT_OF_VIEW))


def _draw_layout(key: PRNGKeyArray, size: int) -> DoorKeyState:
    # Farama draws in this order: the wall's column from 2 to N-3, the agent's pose among the
    # cells left of the wall, the door's row from 1 to N-3 (never N-2), the key's cell among the
    # remaining ones. Two 32-bit words suffice: each outcome's probability is off by less than
    # 2^-32, so the total variation from Farama's distribution is less than N^3 / 2^32 (2^-23
    # for 8x8, 2^-20 for 16x16).
    words = draw_words(key, 2)
    rows = jnp.int32(size - 2)
    wall, rest = below(words[0], size - 4)
    wall_x = 2 + wall
    cells = (wall_x - 1) * rows
    pose, _ = below(rest, 4 * cells)
    door, rest = below(words[1], size - 3)
    other, _ = below(rest, cells - 1)
    agent_cell = pose >> 2
    key_cell = other + (other >= agent_cell)
    agent = Agent(
        x=1 + jax.lax.div(agent_cell, rows),
        y=1 + jax.lax.rem(agent_cell, rows),
        direction=pose & 3,
        carrying=jnp.int32(0),
        door=jnp.int32(LOCKED),
    )
    objects = Objects(
        wall_x, 1 + door, 1 + jax.lax.div(key_cell, rows), 1 + jax.lax.rem(key_cell, rows)
    )
    return DoorKeyState(pack_agent(agent), pack_objects(objects), jnp.int32(0))
