"""Layouts of MiniGrid's tasks with a grid have the distribution of Farama's `minigrid`."""

from itertools import combinations

import jax
import numpy as np
import pytest
from scipy.ndimage import label

from re3_jax.envs.device import minigrid
from re3_jax.envs.device.minigrid.codes import BALL, BOX, DOOR, GOAL, KEY, LAVA, WALL
from re3_jax.envs.device.minigrid.world import Pose, World, pack_pose, unpack_pose
from tests.farama_worlds import HEADINGS, farama_env, world_of
from tests.homogeneity import p_value

FALSE_ALARMS = 1e-3
"""Probability, over the choice of seeds, that any test of this file fails though all is right."""

MOST_VIEWS = 40
"""No task is looked at from more sides than this."""

FAST = ("LavaGapS6", "SimpleCrossingS9N2", "MultiRoom-N4-S5")

THINGS = {"door": DOOR, "key": KEY, "ball": BALL, "box": BOX, "goal": GOAL & 0xFF, "lava": 9}


def farama_worlds(name: str, count: int) -> World:
    env = farama_env(name)
    env.gen_obs = lambda: None
    worlds = []
    for episode in range(count):
        env.reset(seed=0 if episode == 0 else None)
        worlds.append(world_of(env))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *worlds)


def device_worlds(name: str, count: int) -> World:
    worlds, _ = jax.jit(jax.vmap(minigrid.make(name).reset))(
        jax.random.split(jax.random.key(0), count)
    )
    return jax.tree.map(np.asarray, worlds)


def sides(worlds: World, width: int) -> dict[str, np.ndarray]:
    """Whole numbers [world, variable] that describe layouts from many sides."""
    cells, count = worlds.cells, len(worlds.cells)
    rows = np.arange(count)
    pose = unpack_pose(worlds.pose)
    agent = np.stack([pose.x, pose.y], 1)
    ahead = agent + HEADINGS[pose.direction]
    grids = cells.reshape(count, -1, width)
    walls = grids == WALL
    found = {
        "mission": worlds.mission[:, None],
        "agent": agent,
        "pose": np.column_stack([agent, pose.direction]),
        "cell ahead": (cells[rows, ahead[:, 1] * width + ahead[:, 0]] & 0xFF00FF)[:, None],
        "number of walls": walls.sum((1, 2))[:, None],
        "walls of columns": walls.sum(1)[:, 1:6],
        "walls of rows": walls.sum(2)[:, 1:6],
        "walls around the agent": np.stack(
            [
                cells[rows, (agent[:, 1] + dy) * width + agent[:, 0] + dx] == WALL
                for dx, dy in HEADINGS
            ],
            1,
        ),
    }
    firsts = {}
    for name, kind in THINGS.items():
        is_it = cells & 0xFF == kind
        if not is_it.any():
            continue
        first, last = is_it.argmax(1), cells.shape[1] - 1 - is_it[:, ::-1].argmax(1)
        number = is_it.sum(1)
        firsts[name] = cells[rows, first] >> 8 & 0xFF, np.stack([first % width, first // width], 1)
        found |= {
            f"number of {name}": number[:, None],
            f"first {name}": np.where(number, first, -1)[:, None],
            f"last {name}": np.where(number, last, -1)[:, None],
            f"{name} itself": np.column_stack([cells[rows, first], cells[rows, last]]),
            f"{name} from agent": firsts[name][1] - agent,
        }
    for (one, (colour, place)), (two, (other_colour, other)) in combinations(firsts.items(), 2):
        found[f"{two} from {one}"] = np.column_stack([other - place, colour == other_colour])
    if "box" in firsts:
        content = cells[rows, (cells & 0xFF == BOX).argmax(1)] >> 28 & 0x7
        found["key in box"] = (content == firsts["door"][0])[:, None]
    assert len(found) <= MOST_VIEWS
    return found


@pytest.mark.parametrize(
    ("name", "count"),
    [(name, 600) for name in FAST]
    + [pytest.param(name, 3000, marks=pytest.mark.slow) for name in minigrid.TASKS],
)
def test_layouts_are_distributed_as_faramas(name: str, count: int) -> None:
    width = minigrid.TASKS[name]().width
    theirs = sides(farama_worlds(name, count), width)
    ours = sides(device_worlds(name, 4 * count), width)
    assert theirs.keys() == ours.keys()
    tests = (len(FAST) + len(minigrid.TASKS)) * MOST_VIEWS
    results = {side: p_value(theirs[side], ours[side]) for side in theirs}
    wrong = {side: p for side, (p, _) in results.items() if p < FALSE_ALARMS / tests}
    assert not wrong, results
    assert sum(outcomes > 1 for _, outcomes in results.values()) >= 4


@pytest.mark.parametrize("name", minigrid.TASKS)
def test_specification_and_missions_are_faramas(name: str) -> None:
    env, spec, missions = farama_env(name), minigrid.make(name).spec, minigrid.missions(name)
    assert (spec.task, spec.max_agent_steps) == (f"minigrid:{name}", env.max_steps)
    for seed in range(3):
        env.reset(seed=seed)
        assert missions[int(world_of(env).mission)] == env.mission


def cells_of_agents(worlds: World, width: int) -> set[tuple[int, int]]:
    """Cells (column, row) on which an agent can come to act, whatever it first has to open or move.

    What the mission names ends the episode.
    """
    found: set[tuple[int, int]] = set()
    grids = worlds.cells.reshape(len(worlds.cells), -1, width)
    for grid, pose, mission in zip(grids, worlds.pose, worlds.mission, strict=True):
        is_open = (grid != WALL) & (grid != LAVA) & (grid & 0xFFFF != mission)
        areas, _ = label(is_open)
        x, y, _ = unpack_pose(int(pose))
        rows, columns = np.nonzero(areas == areas[y, x])
        found |= set(zip(columns.tolist(), rows.tolist(), strict=True))
    return found


@pytest.mark.parametrize("name", minigrid.TASKS)
def test_countable_states_are_the_cells_that_an_agent_can_reach(name: str) -> None:
    layouts, states = minigrid.TASKS[name](), minigrid.make(name).states
    worlds = farama_worlds(name, 1000)
    acted_on = cells_of_agents(worlds, layouts.width)
    assert states is not None
    assert states.num_reachable == 4 * len(acted_on)
    world = jax.tree.map(lambda leaf: leaf[0], worlds)
    numbers = {
        int(states.number(world._replace(pose=pack_pose(Pose(x, y, direction)))))
        for x, y in acted_on
        for direction in range(4)
    }
    assert len(numbers) == states.num_reachable
    assert 0 <= min(numbers) and max(numbers) < states.num_states
