"""MiniGrid Empty and DoorKey of any size, exactly as in Farama's `minigrid` 3.x.

An observation is the agent's 7x7 view, uint8 [7, 7, 3], indexed [column, row, channel] as
Farama's `image`: the agent stands at [3, 6] and faces row 0; the channels are object, colour
and door state. Actions: 0 left, 1 right, 2 forward, 3 pick up, 4 drop, 5 toggle, 6 done (does
nothing). Reaching the goal ends the episode with reward 1 - 0.9 t / T, t the agent step and T
the time limit: 4 N^2 agent steps in Empty, 10 N^2 in DoorKey.

A state is two or three packed int32 words, without a grid. The content and visibility of each view
cell are computed from the positions of walls, door, key and goal relative to the agent. On a CPU,
kernel launches dominate the cost of an environment step, so a few small arrays beat a grid that
is sliced, rotated and scanned.
"""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, UInt32

from re3_jax.envs.base import CountableStates, DeviceEnv, Discrete, EnvSpec, TimeStep
from re3_jax.envs.device.minigrid_view import (
    AHEAD,
    DOOR,
    EMPTY,
    KEY,
    OUT_OF_VIEW,
    RIGHTWARD,
    UNSEEN,
    VIEW,
    WALL,
    Agent,
    Image,
    Scalar,
    at,
    front_cell,
    image,
    projection,
    room,
    seen,
)

LARGEST_SIZE = 128
"""Coordinates are packed into fields of 8 bits, and layouts drawn from 64 random bits."""

_LEFT, _RIGHT, _FORWARD, _PICK_UP, _DROP, _TOGGLE = range(6)
_OPEN, _CLOSED, _LOCKED = range(3)
_KEY_AND_DOOR = 2 * 3


class EmptyState(NamedTuple):
    """State of one Empty environment.

    Attributes:
      agent: the packed `Agent` (which carries nothing and has no door).
      agent_steps: agent steps since the episode began.
    """

    agent: Scalar
    agent_steps: Scalar


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


def pack_agent(agent: Agent) -> Scalar:
    """Pack an `Agent` into one int32."""
    return agent.x | agent.y << 8 | agent.direction << 16 | agent.carrying << 18 | agent.door << 19


def unpack_agent(word: Scalar) -> Agent:
    """Invert `pack_agent`."""
    return Agent(word & 255, word >> 8 & 255, word >> 16 & 3, word >> 18 & 1, word >> 19)


def pack_objects(objects: Objects) -> Scalar:
    """Pack `Objects` into one int32."""
    return objects.wall_x | objects.door_y << 8 | objects.key_x << 16 | objects.key_y << 24


def unpack_objects(word: Scalar) -> Objects:
    """Invert `pack_objects`."""
    return Objects(word & 255, word >> 8 & 255, word >> 16 & 255, word >> 24)


def make(kind: Literal["empty", "doorkey"], size: int) -> DeviceEnv:
    """Make MiniGrid-Empty-NxN or MiniGrid-DoorKey-NxN (paper: Empty-16x16, DoorKey-6x6, 8x8).

    Empty starts at (1, 1) facing right and sees through walls, as Farama's registered
    non-Random variants do. DoorKey draws the wall's column, the agent's pose, the door's row
    and the key's cell with the distribution of Farama's generator.

    Args:
      kind: "empty" or "doorkey".
      size: width and height N in cells, the outer walls included: 3 to 128 for Empty, 5 to
        128 for DoorKey. (In Empty-3x3 the agent stands on the goal from the start and can only
        run out of time, as in Farama's.)

    Returns:
      The environment; its task is named `minigrid:Empty-NxN` or `minigrid:DoorKey-NxN`.

    Raises:
      ValueError: if the kind is unknown or the size out of range.
    """
    if kind not in ("empty", "doorkey"):
        raise ValueError(f"unknown MiniGrid kind {kind!r}: choose 'empty' or 'doorkey'")
    smallest = 3 if kind == "empty" else 5
    if not isinstance(size, int) or not smallest <= size <= LARGEST_SIZE:
        raise ValueError(
            f"MiniGrid {kind} cannot have size {size!r}: choose a whole number of cells "
            f"from {smallest} to {LARGEST_SIZE}"
        )
    name, steps = ("Empty", 4 * size**2) if kind == "empty" else ("DoorKey", 10 * size**2)
    spec = EnvSpec(
        task=f"minigrid:{name}-{size}x{size}",
        observation_shape=(VIEW, VIEW, 3),
        observation_dtype=np.dtype(np.uint8),
        action_space=Discrete(7),
        max_agent_steps=steps,
    )
    return _make_empty(spec, size) if kind == "empty" else _make_doorkey(spec, size)


def _make_empty(spec: EnvSpec, size: int) -> DeviceEnv:
    goal = size - 2

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
        x, y = front_cell(agent)
        forward = action == _FORWARD
        moved = forward & ~_on_border(x, y, size)
        terminated = forward & (x == goal) & (y == goal)
        agent = agent._replace(
            x=jnp.where(moved, x, agent.x),
            y=jnp.where(moved, y, agent.y),
            direction=_turn(agent.direction, action),
        )
        stepped = EmptyState(pack_agent(agent), state.agent_steps + 1)
        reward, truncated = _outcome(spec, stepped.agent_steps, terminated)
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
    return DeviceEnv(spec, reset, step, _cells_and_directions(size, int(size > 3)))


def _make_doorkey(spec: EnvSpec, size: int) -> DeviceEnv:
    goal = size - 2

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
        cells = jnp.where(at(*door), DOOR | agent.door << 16, cells)
        cells = jnp.where(at(0, 0), EMPTY, cells)
        cells = jnp.where(at_key, KEY, cells)
        visible = seen(faces_wall, wall, door, agent.door == _OPEN)
        return image(jnp.where(visible & inside, cells, UNSEEN))

    def reset(key: PRNGKeyArray) -> tuple[DoorKeyState, Image]:
        state = _draw_layout(key, size)
        return state, observe(state)

    def step(
        state: DoorKeyState, action: Scalar, key: PRNGKeyArray
    ) -> tuple[DoorKeyState, TimeStep]:
        agent, objects = unpack_agent(state.agent), unpack_objects(state.objects)
        x, y = front_cell(agent)
        carrying, is_open = agent.carrying == 1, agent.door == _OPEN
        at_goal = (x == goal) & (y == goal)
        at_door = (x == objects.wall_x) & (y == objects.door_y)
        at_wall = _on_border(x, y, size) | ((x == objects.wall_x) & ~at_door)
        at_key = (x == objects.key_x) & (y == objects.key_y) & ~carrying

        forward = action == _FORWARD
        moved = forward & ~(at_wall | at_key | (at_door & ~is_open))
        terminated = forward & at_goal
        picked_up = (action == _PICK_UP) & at_key
        dropped = (action == _DROP) & carrying & ~(at_wall | at_door | at_goal)
        toggled = (action == _TOGGLE) & at_door & (carrying | (agent.door != _LOCKED))

        agent = Agent(
            x=jnp.where(moved, x, agent.x),
            y=jnp.where(moved, y, agent.y),
            direction=_turn(agent.direction, action),
            carrying=(agent.carrying | picked_up) & ~dropped,
            door=jnp.where(toggled, jnp.where(is_open, _CLOSED, _OPEN), agent.door),
        )
        objects = objects._replace(
            key_x=jnp.where(dropped, x, objects.key_x), key_y=jnp.where(dropped, y, objects.key_y)
        )
        stepped = DoorKeyState(pack_agent(agent), pack_objects(objects), state.agent_steps + 1)
        reward, truncated = _outcome(spec, stepped.agent_steps, terminated)
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
    states = _cells_and_directions(size, 2 if size == 5 else 1)
    return DeviceEnv(
        spec, reset, step, states._replace(objects=_key_and_door, num_objects=_KEY_AND_DOOR)
    )


def _cells_and_directions(size: int, num_unreachable: int) -> CountableStates:
    """Numbers states by the agent's cell and direction, whatever the layout."""
    width = size - 2

    def number(state: EmptyState | DoorKeyState) -> Scalar:
        agent = unpack_agent(state.agent)
        return ((agent.y - 1) * width + agent.x - 1) * 4 + agent.direction

    return CountableStates(number, 4 * width**2, 4 * (width**2 - num_unreachable))


def _key_and_door(state: DoorKeyState) -> Scalar:
    agent = unpack_agent(state.agent)
    return agent.door * 2 + agent.carrying


def _draw_layout(key: PRNGKeyArray, size: int) -> DoorKeyState:
    # Farama draws in this order: the wall's column from 2 to N-3, the agent's pose among the
    # cells left of the wall, the door's row from 1 to N-3 (never N-2), the key's cell among the
    # remaining ones. Two 32-bit words suffice: each outcome's probability is off by less than
    # 2^-32, so the total variation from Farama's distribution is less than N^3 / 2^32 (2^-23
    # for 8x8, 2^-20 for 16x16).
    words = jax.random.bits(key, (2,))
    rows = size - 2
    wall, rest = _below(words[0], size - 4)
    wall_x = 2 + wall
    cells = (wall_x - 1) * rows
    pose, _ = _below(rest, 4 * cells)
    door, rest = _below(words[1], size - 3)
    other, _ = _below(rest, cells - 1)
    agent_cell = pose >> 2
    key_cell = other + (other >= agent_cell)
    agent = Agent(
        x=1 + jax.lax.div(agent_cell, rows),
        y=1 + jax.lax.rem(agent_cell, rows),
        direction=pose & 3,
        carrying=jnp.int32(0),
        door=jnp.int32(_LOCKED),
    )
    objects = Objects(
        wall_x, 1 + door, 1 + jax.lax.div(key_cell, rows), 1 + jax.lax.rem(key_cell, rows)
    )
    return DoorKeyState(pack_agent(agent), pack_objects(objects), jnp.int32(0))


def _below(word: UInt32[Array, ""], bound: Scalar | int) -> tuple[Scalar, UInt32[Array, ""]]:
    """Return floor(word * bound / 2^32) and the remaining fraction as 32 bits (bound < 2^16)."""
    count = jnp.asarray(bound).astype(jnp.uint32)
    carry = ((word & 0xFFFF) * count) >> 16
    high = ((word >> 16) * count + carry) >> 16
    return high.astype(jnp.int32), word * count


def _outcome(
    spec: EnvSpec, agent_steps: Scalar, terminated: Bool[Array, ""]
) -> tuple[Array, Bool[Array, ""]]:
    fraction = agent_steps.astype(jnp.float32) / spec.max_agent_steps
    reward = jnp.where(terminated, 1 - 0.9 * fraction, 0.0)
    return reward, agent_steps >= spec.max_agent_steps


def _turn(direction: Scalar, action: Scalar) -> Scalar:
    right = (action == _RIGHT).astype(jnp.int32)
    left = (action == _LEFT).astype(jnp.int32)
    return (direction + right - left) & 3


def _on_border(x: Scalar, y: Scalar, size: int) -> Bool[Array, ""]:
    last = size - 1
    return (x == 0) | (x == last) | (y == 0) | (y == last)
