"""MiniGrid-FourRooms: a goal in one of four rooms with a gap between each two neighbours."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from re3_jax.envs.device.minigrid.codes import EMPTY, GOAL, WALL
from re3_jax.envs.device.minigrid.draws import draw_words, uniform
from re3_jax.envs.device.minigrid.environment import Layouts
from re3_jax.envs.device.minigrid.world import Pose, World, new_world

SIZE = 19
_MIDDLE = SIZE // 2
_SIDE = _MIDDLE - 1
_FLOOR = 4 * _SIDE**2


def layouts() -> Layouts:
    """Gaps, the agent's pose and the goal's cell are random."""
    return Layouts(SIZE, SIZE, 100, {GOAL: "reach the goal"}, draw, num_unreachable=1)


def draw(key: PRNGKeyArray) -> tuple[bool, World]:
    """Draws a layout."""
    words = draw_words(key, 7)
    x, y = jnp.arange(SIZE)[None, :], jnp.arange(SIZE)[:, None]
    # Gaps in the wall above, left of, right of and below the middle.
    beyond = jnp.array([0, 0, _MIDDLE, _MIDDLE])
    gaps = uniform(words[:4], beyond + 1, beyond + _MIDDLE)
    above, left, right, below = gaps
    border = (x == 0) | (x == SIZE - 1) | (y == 0) | (y == SIZE - 1)
    upright = (x == _MIDDLE) & (y != above) & (y != below)
    level = (y == _MIDDLE) & (x != left) & (x != right)
    is_wall = border | upright | level

    # Places are numbered: first the cells of the rooms, then the gaps.
    gap_x = jnp.stack([jnp.int32(_MIDDLE), left, right, jnp.int32(_MIDDLE)])
    gap_y = jnp.stack([above, jnp.int32(_MIDDLE), jnp.int32(_MIDDLE), below])

    def cell(place):
        row, column = place // (2 * _SIDE), place % (2 * _SIDE)
        gap = jnp.maximum(place - _FLOOR, 0)
        is_gap = place >= _FLOOR
        return (
            jnp.where(is_gap, gap_x[gap], 1 + column + (column >= _SIDE)),
            jnp.where(is_gap, gap_y[gap], 1 + row + (row >= _SIDE)),
        )

    agent = uniform(words[4], 0, _FLOOR + 4)
    other = uniform(words[5], 0, _FLOOR + 3)
    agent_x, agent_y = cell(agent)
    goal_x, goal_y = cell(other + (other >= agent))
    grid = jnp.where(is_wall, WALL, EMPTY)
    grid = jnp.where((x == goal_x) & (y == goal_y), GOAL, grid)
    return True, new_world(grid, Pose(agent_x, agent_y, uniform(words[6], 0, 4)), GOAL)
