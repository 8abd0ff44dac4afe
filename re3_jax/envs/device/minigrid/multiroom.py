"""MiniGrid-MultiRoom: a chain of rooms with doors, the goal in the last."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray, UInt32

from re3_jax.envs.device.minigrid.codes import CLOSED, DOOR, EMPTY, GOAL, WALL, Scalar, coloured
from re3_jax.envs.device.minigrid.draws import Word, below, draw_words, uniform
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.grids import columns_and_rows, put
from re3_jax.envs.device.minigrid.world import Pose, World, new_world

SIDE = 25
"""Width and height of the grid."""

SMALLEST_ROOM = 4
"""Cells along a side of a room, its walls included."""

_TRIES = 8
"""How often Farama's generator tries to add a room before it starts over."""

_CHAINS = 4
"""Chains that are drawn at a time, of which the first whole one is used: a quarter of the chains of
six large rooms are whole, and the time of a few is hardly more than that of one."""


class Room(NamedTuple):
    """One room.

    Attributes:
      left: column of its left wall.
      top: row of its upper wall.
      width: columns, walls included.
      height: rows, walls included.
      entry_wall: the wall with the entry: 0 right, 1 lower, 2 left, 3 upper.
      entry_x: column of the entry.
      entry_y: row of the entry.
    """

    left: Scalar
    top: Scalar
    width: Scalar
    height: Scalar
    entry_wall: Scalar
    entry_x: Scalar
    entry_y: Scalar


def layouts(rooms: int, largest_room: int) -> Layouts:
    """Rooms, doors with their colours, the agent's pose and the goal's cell are random.

    Args:
      rooms: how many rooms there are, at least 2.
      largest_room: cells along the side of a room, at most; its walls are included.
    """

    def draw(key: PRNGKeyArray) -> tuple[Bool[Array, ""], World]:
        shape = _CHAINS, rooms, _TRIES, 2
        words = draw_words(key, math.prod(shape) + rooms + 4)
        of_chains, of_rest = words[: math.prod(shape)].reshape(shape), words[math.prod(shape) :]
        is_whole, chains = jax.vmap(lambda words: _chain(words, rooms, largest_room))(of_chains)
        chain = jax.tree.map(lambda leaf: leaf[jnp.argmax(is_whole)], chains)
        return jnp.any(is_whole), _world(of_rest, chain)

    missions = {GOAL: "traverse the rooms to get to the goal"}
    # No room reaches into the lowest row.
    return Layouts(SIDE, SIDE, 20 * rooms, missions, draw, SIDE - 2, doors=rooms - 1)


def _chain(
    words: UInt32[Array, "room attempt 2"], rooms: int, largest_room: int
) -> tuple[Bool[Array, ""], Room]:
    """A chain of rooms (the leaves lead with the room), and whether all of them found a place."""
    width, height, _ = _sizes(words[0, 0, 0], largest_room)
    left, rest = below(words[0, 0, 1], SIDE - 2)
    top, _ = below(rest, SIDE - 2)
    chain = [Room(left, top, width, height, jnp.int32(2), left, top)]
    is_whole = _is_on_map(chain[0])
    for number in range(1, rooms):
        candidates = _next_room(words[number], chain[-1], largest_room)
        fits = _is_on_map(candidates)
        for other in chain[:-1]:
            fits &= _is_apart(candidates, other)
        is_whole &= jnp.any(fits)
        first = jnp.argmax(fits)
        chain.append(Room(*(field[first] for field in candidates)))
    return is_whole, Room(*(jnp.stack(fields) for fields in zip(*chain, strict=True)))


def _sizes(word: Word, largest_room: int) -> tuple[Array, Array, Word]:
    choices = largest_room + 1 - SMALLEST_ROOM
    width, rest = below(word, choices)
    height, rest = below(rest, choices)
    return SMALLEST_ROOM + width, SMALLEST_ROOM + height, rest


def _next_room(words: UInt32[Array, "attempt 2"], room: Room, largest_room: int) -> Room:
    """Candidates for the room after `room`; the leaves lead with the attempt."""
    other_wall, rest = below(words[:, 0], 3)
    exit_wall = other_wall + (other_wall >= room.entry_wall)
    is_upright = (exit_wall & 1) == 0
    along = 1 + below(rest, jnp.where(is_upright, room.height, room.width) - 2)[0]
    far_x = jnp.where(exit_wall == 0, room.width - 1, 0)
    far_y = jnp.where(exit_wall == 1, room.height - 1, 0)
    x = room.left + jnp.where(is_upright, far_x, along)
    y = room.top + jnp.where(is_upright, along, far_y)

    width, height, rest = _sizes(words[:, 1], largest_room)
    back = 1 + below(rest, jnp.where(is_upright, height, width) - 2)[0]
    left = x - jnp.where(is_upright, jnp.where(exit_wall == 2, width - 1, 0), back)
    top = y - jnp.where(is_upright, back, jnp.where(exit_wall == 3, height - 1, 0))
    return Room(left, top, width, height, (exit_wall + 2) & 3, x, y)


def _is_on_map(room: Room) -> Bool[Array, "*rooms"]:
    # Farama's generator leaves out the lowest row, but not the last column.
    is_right_of_edge = (room.left >= 0) & (room.left + room.width <= SIDE)
    return is_right_of_edge & (room.top >= 0) & (room.top + room.height < SIDE)


def _is_apart(room: Room, earlier: Room) -> Bool[Array, "*rooms"]:
    return (
        (room.left + room.width < earlier.left)
        | (earlier.left + earlier.width <= room.left)
        | (room.top + room.height < earlier.top)
        | (earlier.top + earlier.height <= room.top)
    )


def _world(words: UInt32[Array, " draw"], chain: Room) -> World:
    rooms = chain.left.shape[0]
    x, y = columns_and_rows(SIDE, SIDE)
    right, bottom = chain.left + chain.width - 1, chain.top + chain.height - 1
    is_wall = jnp.zeros((SIDE, SIDE), bool)
    for number in range(rooms):
        x_0, x_1, y_0, y_1 = (edge[number] for edge in (chain.left, right, chain.top, bottom))
        is_inside = (x > x_0) & (x < x_1) & (y > y_0) & (y < y_1)
        is_wall |= (x >= x_0) & (x <= x_1) & (y >= y_0) & (y <= y_1) & ~is_inside
    grid = jnp.where(is_wall, WALL, EMPTY)

    colour = uniform(words[0], 0, 6)
    for number in range(1, rooms):
        if number > 1:
            other = uniform(words[number - 1], 0, 5)
            colour = other + (other >= colour)
        door = coloured(DOOR, colour, CLOSED)
        grid = put(grid, chain.entry_x[number], chain.entry_y[number], door)

    def inside(number: int, words: UInt32[Array, " 2"]) -> tuple[Scalar, Scalar]:
        return (
            uniform(words[0], chain.left[number] + 1, right[number]),
            uniform(words[1], chain.top[number] + 1, bottom[number]),
        )

    goal_x, goal_y = inside(rooms - 1, words[-2:])
    agent_x, agent_y = inside(0, words[-4:-2])
    grid = put(grid, goal_x, goal_y, GOAL)
    return new_world(grid, Pose(agent_x, agent_y, uniform(words[-5], 0, 4)), GOAL)
