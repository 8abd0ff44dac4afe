"""MiniGrid-LavaGap: a wall of lava with one gap between the agent and the goal."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from re3_jax.envs.device.minigrid.codes import GOAL, LAVA
from re3_jax.envs.device.minigrid.draws import draw_words, uniform
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.grids import columns_and_rows, room_with_goal
from re3_jax.envs.device.minigrid.world import World, new_world, upper_left


def layouts(size: int) -> Layouts:
    """The wall's column and the row of its gap are random.

    Args:
      size: width and height in cells, the outer walls included.
    """

    def draw(key: PRNGKeyArray) -> tuple[bool, World]:
        words = draw_words(key, 2)
        x, y = columns_and_rows(size, size)
        gap_x, gap_y = uniform(words[0], 2, size - 2), uniform(words[1], 1, size - 1)
        is_lava = (x == gap_x) & (y != gap_y) & (y > 0) & (y < size - 1)
        grid = jnp.where(is_lava, LAVA, room_with_goal(size))
        return True, new_world(grid, upper_left(), GOAL)

    missions = {GOAL: "avoid the lava and get to the green goal square"}
    return Layouts(size, size, 4 * size**2, missions, draw, num_unreachable=1)
