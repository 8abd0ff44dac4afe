"""MiniGrid-SimpleCrossing and MiniGrid-LavaCrossing: walls or rivers of lava with openings."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from re3_jax.envs.device.minigrid.codes import EMPTY, GOAL, LAVA, Scalar
from re3_jax.envs.device.minigrid.draws import draw_words, ranks, uniform
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.grids import columns_and_rows, put, room_with_goal
from re3_jax.envs.device.minigrid.world import World, new_world, upper_left


def layouts(size: int, crossings: int, obstacle: int) -> Layouts:
    """The rivers are random, and so is a path across all of them, which their openings follow.

    Args:
      size: width and height in cells, the outer walls included; odd.
      crossings: how many of the rivers there are; half of the possible ones are vertical.
      obstacle: what they consist of, `WALL` or `LAVA`.
    """
    places = np.arange(2, size - 2, 2)
    last = size - 1

    def draw(key: PRNGKeyArray) -> tuple[bool, World]:
        words = draw_words(key, 2 * crossings + 2 * len(places))
        of_openings, of_path, of_rivers = jnp.split(words, [crossings, 2 * crossings])
        upright, level = jnp.split(ranks(of_rivers) < crossings, 2)
        crosses_upright = ranks(of_path) < jnp.sum(upright)

        x, y = columns_and_rows(size, size)
        inside = (x > 0) & (x < last) & (y > 0) & (y < last)
        is_obstacle = (_runs_at(upright, places, x) | _runs_at(level, places, y)) & inside
        grid = jnp.where(is_obstacle, obstacle, room_with_goal(size))

        left, above = jnp.int32(0), jnp.int32(0)
        for step in range(crossings):
            right, below = _next(upright, places, left, last), _next(level, places, above, last)
            goes_right = crosses_upright[step]
            word = of_openings[step]
            opening_x = jnp.where(goes_right, right, uniform(word, left + 1, right))
            opening_y = jnp.where(goes_right, uniform(word, above + 1, below), below)
            grid = put(grid, opening_x, opening_y, EMPTY)
            left, above = jnp.where(goes_right, right, left), jnp.where(goes_right, above, below)
        return True, new_world(grid, upper_left(), GOAL)

    text = "avoid the lava and" if obstacle == LAVA else "find the opening and"
    missions = {GOAL: f"{text} get to the green goal square"}
    return Layouts(size, size, 4 * size**2, missions, draw, num_unreachable=1)


def _runs_at(
    rivers: Bool[Array, " place"], places: np.ndarray, coordinate: np.ndarray
) -> Bool[Array, "..."]:
    """Whether a river runs at each coordinate."""
    return jnp.any(rivers & (coordinate[..., None] == places), axis=-1)


def _next(rivers: Bool[Array, " place"], places: np.ndarray, after: Scalar, last: int) -> Scalar:
    """The first river after a coordinate, else the outer wall."""
    return jnp.min(jnp.where(rivers & (places > after), places, last))
