"""Worlds of Farama's `minigrid` as states of the device environment, and a walk through both."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.envs.registration import load_env_creator
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
from minigrid.core.world_object import Door, Key, WorldObj
from minigrid.envs import UnlockEnv
from minigrid.minigrid_env import MiniGridEnv
from scipy.ndimage import label

from re3_jax.envs.base import DeviceEnv
from re3_jax.envs.device.minigrid.codes import DROP, FORWARD, LEFT, PICK_UP, RIGHT, TOGGLE, WALL
from re3_jax.envs.device.minigrid.world import Pose, World, pack_pose

HEADINGS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
EMPTY = OBJECT_TO_IDX["empty"]

# float32 here, float64 there.
REWARD_TOLERANCE = 1e-6

EPISODES = 2_000
"""Distinct episodes of each task at least that the slow tests walk through."""


def farama_env(name: str) -> Any:
    """Farama's environment of a task of ours; a name without a version is its newest."""
    ids = [task for task in gymnasium.registry if task.rpartition("-v")[0] == f"MiniGrid-{name}"]
    spec = gymnasium.registry[max(ids) if ids else f"MiniGrid-{name}"]
    return load_env_creator(spec.entry_point)(**spec.kwargs)


def cell_of(thing: WorldObj | None) -> int:
    """The cell that holds an object of Farama's."""
    if thing is None:
        return EMPTY
    if thing.type == "wall":
        return WALL
    kind, colour, state = thing.encode()
    content = thing.contains
    inside = (OBJECT_TO_IDX[content.type], COLOR_TO_IDX[content.color]) if content else (0, 0)
    return kind | colour << 8 | state << 16 | inside[0] << 24 | inside[1] << 28


def mission_of(env: MiniGridEnv) -> int:
    """What the mission of Farama's environment names."""
    if isinstance(env, UnlockEnv):
        return cell_of(env.door) & 0xFFFF
    named = getattr(env, "obj", None)
    return OBJECT_TO_IDX["goal"] | COLOR_TO_IDX["green"] << 8 if named is None else cell_of(named)


def world_of(env: MiniGridEnv) -> World:
    """The state of Farama's environment as ours, in NumPy."""
    x, y = env.agent_pos
    return World(
        cells=np.array([cell_of(thing) for thing in env.grid.grid], np.int32),
        pose=np.int32(pack_pose(Pose(int(x), int(y), int(env.agent_dir)))),
        carried=np.int32(cell_of(env.carrying)),
        mission=np.int32(mission_of(env) & 0xFFFF),
        agent_steps=np.int32(env.step_count),
    )


def front_of(env: MiniGridEnv) -> WorldObj | None:
    return env.grid.get(*env.front_pos)


def move_beside_something(env: MiniGridEnv, rng: np.random.Generator) -> None:
    """Puts the agent before an object, or two cells away; every kind of object is as likely.

    It stays within the rooms: around those of MultiRoom is a void that leads off the grid. It may
    come to stand in a doorway, whose door is opened. Before a locked door it gets a
    key that fits, before an object to pick up its hands are emptied, more often than not.
    """
    width = env.grid.width
    is_open = np.array([not thing or thing.type != "wall" for thing in env.grid.grid])
    areas, _ = label(is_open.reshape(-1, width))
    home = areas[env.agent_pos[1], env.agent_pos[0]]
    things = [(i, thing) for i, thing in enumerate(env.grid.grid) if thing and thing.type != "wall"]
    kind = rng.choice(sorted({thing.type for _, thing in things}))
    places = [i for i, thing in things if thing.type == kind]
    for place in rng.choice(places, 4):
        direction, steps = rng.integers(4), rng.integers(1, 3)
        x, y = np.array([place % width, place // width]) - steps * HEADINGS[direction]
        if not (0 <= x < width and 0 <= y < env.grid.height) or areas[y, x] != home:
            continue
        stand = env.grid.get(x, y)
        # In Unlock an open door ends the episode.
        if stand is not None and (not isinstance(stand, Door) or isinstance(env, UnlockEnv)):
            continue
        if stand is not None:
            stand.is_open, stand.is_locked = True, False
        env.agent_pos, env.agent_dir = (int(x), int(y)), int(direction)
        front = front_of(env)
        if isinstance(front, Door) and front.is_locked and rng.random() < 0.8:
            env.carrying = Key(front.color)
        elif front is not None and front.can_pickup() and rng.random() < 0.8:
            env.carrying = None
        return


def likely_action(env: MiniGridEnv, rng: np.random.Generator) -> int:
    """An action that often has an effect."""
    front = front_of(env)
    if rng.random() < 0.4:
        return int(rng.integers(7))
    if front is None:
        return int(rng.choice([FORWARD, DROP if env.carrying else FORWARD, LEFT, RIGHT]))
    if front.type == "door":
        return int(rng.choice([TOGGLE, TOGGLE, FORWARD]))
    if front.can_pickup():
        return int(rng.choice([PICK_UP, TOGGLE]) if front.type == "box" else PICK_UP)
    return int(rng.choice([FORWARD, LEFT, RIGHT]))


@dataclass
class Before:
    """What is compared with the state after a step, to count events."""

    front: str
    state: int
    carried: str | None

    @classmethod
    def of(cls, env: MiniGridEnv) -> "Before":
        front, carried = front_of(env), env.carrying
        return cls(
            "nothing" if front is None else front.type,
            0 if front is None else front.encode()[2],
            carried and carried.type,
        )


def events_of(before: Before, env: MiniGridEnv, action: int, reward: float, ends: bool) -> set[str]:
    """What an action did."""
    front = front_of(env)
    found = {f"action {action}"}
    if action == PICK_UP and before.carried is None and env.carrying is not None:
        found.add(f"{env.carrying.type} picked up")
    if action == DROP and before.carried is not None and env.carrying is None:
        found.add(f"{before.carried} dropped")
    if action == PICK_UP and before.carried and before.front in ("key", "ball", "box"):
        found.add("hands full")
    if action == DROP and before.carried and before.front != "nothing":
        found.add("no room to drop")
    if action == TOGGLE and before.front == "door" and front is not None:
        found.add(f"door {before.state} toggled to {front.encode()[2]}")
    if action == TOGGLE and before.front == "box":
        found.add("empty box opened" if front is None else f"box with {front.type} opened")
    if action == FORWARD and before.front == "door" and env.grid.get(*env.agent_pos) is not None:
        found.add("doorway entered")
    if ends:
        found.add("success" if reward > 0 else "lava")
    return found


def distinct_episodes(walks: Iterable[Sequence[Hashable]]) -> int:
    """How many episodes differ from each other; an episode is where it began and its actions."""
    return len({tuple(walk) for walk in walks if len(walk) > 1})


def beginning_of(world: World) -> bytes:
    return b"".join(leaf.tobytes() for leaf in world)


def walk_beside(device: DeviceEnv, farama: list[Any], agent_steps: int, seed: int) -> Counter[str]:
    """Walks through the device environment and Farama's, which must agree at every step.

    Each episode is a world of Farama's, copied; now and then the agent is put beside an object.

    Args:
      device: the device environment.
      farama: Farama's environments, one for each lane.
      agent_steps: steps of each lane.
      seed: of everything random.

    Returns:
      How often each event occurred, and how many distinct episodes were walked.
    """
    rng, events = np.random.default_rng(seed), Counter[str]()
    step = jax.jit(jax.vmap(device.step))
    for lane, env in enumerate(farama):
        env.reset(seed=seed * 10_000 + lane)
    copies = [world_of(env) for env in farama]
    walks: list[list[Hashable]] = [[beginning_of(copy)] for copy in copies]
    walk_of = list(walks)
    for t in range(agent_steps):
        for lane in np.flatnonzero(rng.random(len(farama)) < 0.08):
            move_beside_something(farama[lane], rng)
            copies[lane] = world_of(farama[lane])
        worlds = jax.tree.map(lambda *leaves: np.stack(leaves), *copies)
        actions = np.array([likely_action(env, rng) for env in farama], np.int32)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), t), len(farama))
        state, timestep = jax.tree.map(np.asarray, step(worlds, actions, keys))
        for lane, env in enumerate(farama):
            before, action = Before.of(env), int(actions[lane])
            walk_of[lane].append(action)
            observation, reward, terminated, truncated, _ = env.step(action)
            where = f"lane {lane}, step {t}, action {action}"
            ours = timestep.final_observation[lane]
            assert np.array_equal(ours, observation["image"]), where
            assert abs(float(timestep.reward[lane]) - reward) < REWARD_TOLERANCE, where
            assert bool(timestep.terminated[lane]) == terminated, where
            assert bool(timestep.truncated[lane]) == truncated, where
            events.update(events_of(before, env, action, float(reward), terminated))
            events["time limit"] += truncated
            if terminated or truncated:
                env.reset()
                copies[lane] = world_of(env)
                walk_of[lane] = [beginning_of(copies[lane])]
                walks.append(walk_of[lane])
                continue
            assert np.array_equal(timestep.observation[lane], ours), where
            copies[lane] = world_of(env)
            for name, field in copies[lane]._asdict().items():
                assert np.array_equal(getattr(state, name)[lane], field), f"{where}: {name}"
    events["distinct episodes"] = distinct_episodes(walks)
    return events


def require(events: Counter[str], minima: dict[str, int]) -> None:
    """Fails if an event was too rare."""
    short = {name: events[name] for name, least in minima.items() if events[name] < least}
    assert not short, f"too rare for the comparison to mean anything: {short}; all: {events}"
