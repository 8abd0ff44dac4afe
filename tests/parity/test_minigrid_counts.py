"""The numbers by which MiniGrid's states are counted, from Farama's own objects."""

import jax
import numpy as np
import pytest
from minigrid.core.world_object import Door
from minigrid.minigrid_env import MiniGridEnv

from re3_jax.envs.registry import make
from tests.farama_worlds import farama_env, likely_action, move_beside_something, world_of

STEPS = 3_000

TASKS = {
    "FourRooms": (0, 0, ()),
    "MultiRoom-N6": (5, 0, ()),
    "KeyCorridorS3R3": (12, 1, ("key",)),
    "KeyCorridorS4R3": (12, 1, ("key",)),
    "BlockedUnlockPickup": (1, 1, ("key", "ball")),
    "ObstructedMaze-1Dl": (1, 1, ("key",)),
    "ObstructedMaze-2Dl": (3, 2, ("key",)),
    "ObstructedMaze-2Dlhb": (3, 2, ("key", "ball", "box")),
}
"""Task -> bounds of its doors and of the locked ones, and what the agent can carry."""


def situation(env: MiniGridEnv, kinds: tuple[str, ...]) -> tuple[int, ...]:
    """What is carried, doors locked and open, the agent's row, column and direction."""
    doors = [thing for thing in env.grid.grid if isinstance(thing, Door)]
    x, y = env.agent_pos
    return (
        0 if env.carrying is None else 1 + kinds.index(env.carrying.type),
        sum(door.is_locked for door in doors),
        sum(door.is_open for door in doors),
        int(y) - 1,
        int(x) - 1,
        int(env.agent_dir),
    )


@pytest.mark.parametrize("name", TASKS)
def test_states_are_counted_by_carried_kind_doors_cell_and_direction(name):
    doors, locks, kinds = TASKS[name]
    env, rng = farama_env(name), np.random.default_rng(0)
    env.gen_obs = lambda: None
    env.reset(seed=0)
    worlds, situations = [], []
    for _ in range(STEPS):
        if rng.random() < 0.08:
            move_beside_something(env, rng)
        worlds.append(world_of(env))
        situations.append(situation(env, kinds))
        _, _, terminated, truncated, _ = env.step(likely_action(env, rng))
        if terminated or truncated:
            env.reset()
    states = make(f"minigrid:{name}").states
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *worlds)
    numbers = np.asarray(jax.jit(jax.vmap(states.counted))(stacked))
    form = len(kinds) + 1, locks + 1, doors + 1, env.height - 2, env.width - 2, 4
    np.testing.assert_array_equal(numbers, np.ravel_multi_index(np.transpose(situations), form))
    assert states.num_counted == np.prod(form)
    met = [set(column) for column in np.transpose(situations)]
    assert met[:2] == [set(range(len(kinds) + 1)), set(range(locks + 1))]
    assert met[2] >= set(range(min(doors, 3) + 1))
