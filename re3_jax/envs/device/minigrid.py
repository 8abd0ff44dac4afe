"""MiniGrid Empty and DoorKey of any size, exact to Farama's `minigrid` 3.x.

An observation is the agent's 7x7 view, uint8 [7, 7, 3], indexed [column, row, channel] as
Farama's `image`: the agent stands at [3, 6] and faces row 0; the channels are object, colour
and door state. Actions: 0 left, 1 right, 2 forward, 3 pick up, 4 drop, 5 toggle, 6 done (does
nothing). Reaching the goal ends the episode with reward 1 - 0.9 t / T, t the agent step and T
the time limit: 4 N^2 agent steps in Empty, 10 N^2 in DoorKey.

A state is two or three packed int32 words and no grid. What a cell of the view holds, and
whether it is seen, is computed from where the walls, door, key and goal lie relative to the
agent: on a CPU an environment step costs what its kernels cost to launch, so few small
arrays beat a grid that is sliced, rotated and scanned.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt8, UInt32

from re3_jax.envs.base import DeviceEnv, Discrete, EnvSpec, TimeStep

Scalar = Int[Array, ""]
Image = UInt8[Array, "7 7 3"]
Projection = Callable[[Scalar | int, Scalar | int], tuple[Scalar, Scalar]]

LARGEST_SIZE = 128
"""Coordinates are packed into fields of 8 bits, and layouts drawn from 64 random bits."""

_VIEW = 7
_LEFT, _RIGHT, _FORWARD, _PICK_UP, _DROP, _TOGGLE = range(6)
_OPEN, _CLOSED, _LOCKED = range(3)

# One cell in one integer: object in bits 0-7, colour in bits 8-15, door state in bits 16-23.
_UNSEEN = 0
_EMPTY = 1
_WALL = 2 | 5 << 8
_DOOR = 4 | 4 << 8
_KEY = 5 | 4 << 8
_GOAL = 8 | 1 << 8
_CHANNEL_SHIFTS = np.array([0, 8, 16], np.int32)

# View cells relative to the agent: columns right of it, rows ahead of it.
_RIGHTWARD = (np.arange(_VIEW, dtype=np.int32) - _VIEW // 2)[:, None]
_AHEAD = (_VIEW - 1 - np.arange(_VIEW, dtype=np.int32))[None, :]
_OUT_OF_VIEW = _VIEW


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


class Agent(NamedTuple):
    """What the agent's own actions change at every step.

    Attributes:
      x: column, from the left.
      y: row, from the top.
      direction: 0 right, 1 down, 2 left, 3 up.
      carrying: 1 while the agent carries the key, else 0.
      door: 0 open, 1 closed, 2 locked.
    """

    x: Scalar
    y: Scalar
    direction: Scalar
    carrying: Scalar
    door: Scalar


class Objects(NamedTuple):
    """Where things lie in DoorKey.

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
        observation_shape=(_VIEW, _VIEW, 3),
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
        cells, _ = _room(_projection(agent), size)
        return _image(jnp.where(_at(0, 0), _EMPTY, cells))

    def reset(key: PRNGKeyArray) -> tuple[EmptyState, Image]:
        del key
        state = begin()
        return state, observe(state)

    def step(state: EmptyState, action: Scalar, key: PRNGKeyArray) -> tuple[EmptyState, TimeStep]:
        del key
        agent = unpack_agent(state.agent)
        x, y = _front(agent)
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

    return DeviceEnv(spec, reset, step)


def _make_doorkey(spec: EnvSpec, size: int) -> DeviceEnv:
    goal = size - 2

    def observe(state: DoorKeyState) -> Image:
        agent, objects = unpack_agent(state.agent), unpack_objects(state.objects)
        project = _projection(agent)
        cells, inside = _room(project, size)
        wall = project(objects.wall_x, agent.y)
        door = project(objects.wall_x, objects.door_y)
        key_ahead, key_right = project(objects.key_x, objects.key_y)
        faces_wall = (agent.direction & 1) == 0
        on_wall = (_AHEAD == jnp.where(faces_wall, wall[0], _OUT_OF_VIEW)) | (
            _RIGHTWARD == jnp.where(faces_wall, _OUT_OF_VIEW, wall[1])
        )
        # A carried key is drawn where the agent stands.
        carried = agent.carrying == 1
        at_key = _at(jnp.where(carried, 0, key_ahead), jnp.where(carried, 0, key_right))
        cells = jnp.where(on_wall, _WALL, cells)
        cells = jnp.where(_at(*door), _DOOR | agent.door << 16, cells)
        cells = jnp.where(_at(0, 0), _EMPTY, cells)
        cells = jnp.where(at_key, _KEY, cells)
        seen = _seen(faces_wall, wall, door, agent.door == _OPEN)
        return _image(jnp.where(seen & inside, cells, _UNSEEN))

    def reset(key: PRNGKeyArray) -> tuple[DoorKeyState, Image]:
        state = _draw_layout(key, size)
        return state, observe(state)

    def step(
        state: DoorKeyState, action: Scalar, key: PRNGKeyArray
    ) -> tuple[DoorKeyState, TimeStep]:
        agent, objects = unpack_agent(state.agent), unpack_objects(state.objects)
        x, y = _front(agent)
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

    return DeviceEnv(spec, reset, step)


def _draw_layout(key: PRNGKeyArray, size: int) -> DoorKeyState:
    # Farama draws in this order: the wall's column from 2 to N-3, the agent's pose among the
    # cells left of it, the door's row from 1 to N-3 (never N-2), the key's cell among those
    # left. Two words of 32 bits hold it all: each outcome's chance is off by less than 2^-32,
    # so the total variation from Farama's distribution is less than N^3 / 2^32 (2^-23 for
    # 8x8, 2^-20 for 16x16).
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
    """Return floor(word * bound / 2^32) and the fraction left, again 32 bits (bound < 2^16)."""
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


def _heading(direction: Scalar) -> tuple[Scalar, Scalar]:
    vertical = (direction & 1) == 1
    return jnp.where(vertical, 0, 1 - direction), jnp.where(vertical, 2 - direction, 0)


def _front(agent: Agent) -> tuple[Scalar, Scalar]:
    dx, dy = _heading(agent.direction)
    return agent.x + dx, agent.y + dy


def _turn(direction: Scalar, action: Scalar) -> Scalar:
    right = (action == _RIGHT).astype(jnp.int32)
    left = (action == _LEFT).astype(jnp.int32)
    return (direction + right - left) & 3


def _on_border(x: Scalar, y: Scalar, size: int) -> Bool[Array, ""]:
    last = size - 1
    return (x == 0) | (x == last) | (y == 0) | (y == last)


def _projection(agent: Agent) -> Projection:
    """Return the map from a cell (x, y) to (rows ahead, columns right) of the agent."""
    dx, dy = _heading(agent.direction)

    def project(x: Scalar | int, y: Scalar | int) -> tuple[Scalar, Scalar]:
        east, south = x - agent.x, y - agent.y
        return east * dx + south * dy, south * dx - east * dy

    return project


def _at(ahead: Scalar | int, right: Scalar | int) -> Bool[Array, "7 7"]:
    return (_AHEAD == ahead) & (_RIGHTWARD == right)


def _room(project: Projection, size: int) -> tuple[Int[Array, "7 7"], Bool[Array, "7 7"]]:
    """Cells of a walled room with its goal, and which of them lie on the map.

    Cells off the map are walls, as in Farama's view.
    """
    ahead_0, right_0 = project(0, 0)
    ahead_1, right_1 = project(size - 1, size - 1)
    # The map's edge behind the agent is never in view.
    front = jnp.maximum(ahead_0, ahead_1)
    left, right = jnp.minimum(right_0, right_1), jnp.maximum(right_0, right_1)
    walls = (_AHEAD >= front) | (_RIGHTWARD <= left) | (_RIGHTWARD >= right)
    inside = (front >= _AHEAD) & (left <= _RIGHTWARD) & (right >= _RIGHTWARD)
    cells = jnp.where(_at(*project(size - 2, size - 2)), _GOAL, _EMPTY)
    return jnp.where(walls, _WALL, cells), inside


def _seen(
    faces_wall: Bool[Array, ""],
    wall: tuple[Scalar, Scalar],
    door: tuple[Scalar, Scalar],
    is_open: Bool[Array, ""],
) -> Bool[Array, "7 7"]:
    """Cells on the map that Farama's `process_vis` lets the agent see in DoorKey.

    `process_vis` floods each row of the view sideways through what is transparent, then
    lights the row ahead of all that it reached and its neighbours. Both rooms being
    rectangles, the flood has a closed form: the agent's own room with its walls; and, if the
    open door is in view, the other room as far as it lies past the door (from the door's
    row on where the wall runs along the view, from the next row on where it lies across).
    From within the doorway: the cells beside the agent, and all that lies past the door.

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
    front = jnp.where(wall_ahead > 0, wall_ahead, _OUT_OF_VIEW)
    left = jnp.where(wall_right < 0, wall_right, -_OUT_OF_VIEW)
    right = jnp.where(wall_right > 0, wall_right, _OUT_OF_VIEW)
    front = jnp.where(in_doorway, 0, front)
    left = jnp.where(in_doorway, -1, left)
    right = jnp.where(in_doorway, 1, right)
    own_room = (front >= _AHEAD) & (left <= _RIGHTWARD) & (right >= _RIGHTWARD)

    door_in_view = (door_ahead >= 0) & (door_ahead < _VIEW) & (jnp.abs(door_right) <= _VIEW // 2)
    past_door = jnp.where(faces_wall, door_ahead + 1, door_ahead)
    return own_room | (_AHEAD >= jnp.where(is_open & door_in_view, past_door, _OUT_OF_VIEW))


def _image(cells: Int[Array, "7 7"]) -> Image:
    return (cells[:, :, None] >> _CHANNEL_SHIFTS).astype(jnp.uint8)
