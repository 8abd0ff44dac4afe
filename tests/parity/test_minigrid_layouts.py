"""Layouts of DoorKey on the device have the distribution of Farama's `minigrid`."""

from functools import cache

import jax
import numpy as np
import pytest

from tests.homogeneity import p_value
from tests.parity.test_minigrid import device_env, farama_env, unpack


@cache
def farama_layouts(size: int, count: int) -> np.ndarray:
    env = farama_env("doorkey", size)
    env.gen_obs = lambda: None
    rows = []
    for episode in range(count):
        env.reset(seed=0 if episode == 0 else None)
        things = {
            cell.type: divmod(place, size)[::-1]
            for place, cell in enumerate(env.grid.grid)
            if cell is not None and cell.type in ("door", "key")
        }
        (wall_x, door_y), (key_x, key_y) = things["door"], things["key"]
        rows.append((wall_x, door_y, key_x, key_y, *env.agent_pos, env.agent_dir))
    return with_offsets(np.array(rows))


def device_layouts(size: int, count: int) -> np.ndarray:
    _, reset, _ = device_env("doorkey", size)
    state, _ = reset(jax.random.split(jax.random.key(size), count))
    agent, objects = unpack(state)
    return with_offsets(np.stack([*objects, agent.x, agent.y, agent.direction], axis=1))


WALL_X, DOOR_Y, KEY_X, KEY_Y, AGENT_X, AGENT_Y, DIRECTION, OFFSET_X, OFFSET_Y = range(9)
EVERYTHING = (WALL_X, DOOR_Y, KEY_X, KEY_Y, AGENT_X, AGENT_Y, DIRECTION)


def with_offsets(rows: np.ndarray) -> np.ndarray:
    offsets = rows[:, [KEY_X, KEY_Y]] - rows[:, [AGENT_X, AGENT_Y]]
    return np.concatenate([rows, offsets], axis=1)


@pytest.mark.parametrize(
    ("size", "count", "columns"),
    [
        (5, 3000, EVERYTHING),
        (6, 10_000, EVERYTHING),
        *[
            (size, count, columns)
            for size, count in ((8, 6000), (16, 20_000))
            for columns in (
                (WALL_X, DOOR_Y, DIRECTION),
                (WALL_X, AGENT_X, AGENT_Y),
                (WALL_X, KEY_X, KEY_Y),
                (DOOR_Y, KEY_Y, AGENT_Y),
                (DOOR_Y, DIRECTION, AGENT_Y),
            )
        ],
        (8, 6000, (KEY_X, KEY_Y, AGENT_X, AGENT_Y)),
        # In 16x16 these four have 28,056 values, more than there are layouts.
        *[
            (16, 20_000, columns)
            for columns in ((KEY_X, AGENT_X), (KEY_Y, AGENT_Y), (OFFSET_X, OFFSET_Y))
        ],
    ],
)
def test_layouts_are_distributed_as_faramas(
    size: int, count: int, columns: tuple[int, ...]
) -> None:
    """Two-sample chi-square test of a joint distribution (of the whole layout, for 5x5 and 6x6).

    The false-alarm rate is 1e-4 per case, over the choice of seeds; the seeds are fixed.
    """
    theirs = farama_layouts(size, count)[:, columns]
    ours = device_layouts(size, 4 * count)[:, columns]
    p, outcomes = p_value(theirs, ours)
    assert outcomes >= 10
    assert p > 1e-4
