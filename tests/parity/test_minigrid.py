"""Empty and DoorKey on the device against Farama's `minigrid`: dynamics and view."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.envs import DoorKeyEnv, EmptyEnv

from re3_jax.envs.base import DeviceEnv
from re3_jax.envs.device.minigrid import doorkey, empty
from re3_jax.envs.device.minigrid.closed_form import Agent, pack_agent, unpack_agent
from re3_jax.envs.device.minigrid.codes import (
    CLOSED,
    DONE,
    DROP,
    FORWARD,
    LEFT,
    LOCKED,
    OPEN,
    PICK_UP,
    RIGHT,
    TOGGLE,
)
from re3_jax.envs.device.minigrid.doorkey import (
    DoorKeyState,
    Objects,
    pack_objects,
    unpack_objects,
)
from re3_jax.envs.device.minigrid.empty import EmptyState
from tests.farama_worlds import EPISODES, HEADINGS, REWARD_TOLERANCE, distinct_episodes, require


@cache
def device_env(kind: str, size: int) -> tuple[DeviceEnv, Any, Any]:
    env = (doorkey if kind == "doorkey" else empty).make(size)
    return env, jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))


def farama_env(kind: str, size: int) -> Any:
    return (DoorKeyEnv if kind == "doorkey" else EmptyEnv)(size=size)


def farama_reset(env: Any, agent: Agent, objects: Objects | None) -> np.ndarray:
    """Resets Farama's environment with its own generator, whose random draws give our layout.

    Fails if our layout is outside what the generator can draw.
    """
    if objects is None:
        observation, _ = env.reset()
        return observation["image"]
    dice = iter(
        (objects.wall_x, agent.x, agent.y, agent.direction)
        + (objects.door_y, objects.key_x, objects.key_y)
    )

    def rand_int(low: int, high: int) -> int:
        value = int(next(dice))
        assert low <= value < high
        return value

    env._rand_int = rand_int
    observation, _ = env.reset()
    assert next(dice, None) is None
    return observation["image"]


def unpack(state: DoorKeyState | EmptyState) -> tuple[Agent, Objects | None]:
    """Unpacks one state, or a batch of them, into NumPy integers."""
    agent = unpack_agent(np.asarray(state.agent))
    if isinstance(state, EmptyState):
        return agent, None
    return agent, unpack_objects(np.asarray(state.objects))


def lane_of(record: Any, lane: int) -> Any:
    return None if record is None else type(record)(*(int(field[lane]) for field in record))


class Wanderers:
    """Noisy experts, one per lane, that differ in noise and in how they use key and door."""

    def __init__(self, size: int, lanes: int, rng: np.random.Generator):
        self.size, self.rng = size, rng
        # A few lanes only wander, so that some episodes run out of time.
        self.noise = np.where(np.arange(lanes) % 8 == 0, 1.0, rng.uniform(0.1, 0.6, lanes))

    def act(self, agent: Agent, objects: Objects | None) -> np.ndarray:
        lanes = len(self.noise)
        goal = self.size - 2
        target_x, target_y = np.full(lanes, goal), np.full(lanes, goal)
        use = np.full(lanes, FORWARD)
        if objects is not None:
            left = agent.x < objects.wall_x
            shut, locked = agent.door != OPEN, agent.door == LOCKED
            to_key = locked & (agent.carrying == 0)
            to_door = left & ~to_key
            target_x = np.where(to_key, objects.key_x, np.where(to_door, objects.wall_x, goal))
            target_y = np.where(to_key, objects.key_y, np.where(to_door, objects.door_y, goal))
            # In the doorway, walk out of it first.
            target_y = np.where(agent.x == objects.wall_x, agent.y, target_y)
            use = np.where(to_key, PICK_UP, np.where(to_door & shut, TOGGLE, FORWARD))
        dx, dy = target_x - agent.x, target_y - agent.y
        along_x = np.where((dx != 0) & (dy != 0), self.rng.random(lanes) < 0.5, np.abs(dx) > 0)
        wanted = np.where(along_x, np.where(dx > 0, 0, 2), np.where(dy > 0, 1, 3))
        turn = (wanted - agent.direction) % 4
        adjacent = np.abs(dx) + np.abs(dy) == 1
        action = np.where(turn == 0, np.where(adjacent, use, FORWARD), LEFT)
        action = np.where(turn == 1, RIGHT, action)

        front_x, front_y = np.stack([agent.x, agent.y]) + HEADINGS[agent.direction].T
        if objects is not None:
            # Drop the key and close the door far more often than by chance.
            at_door = (front_x == objects.wall_x) & (front_y == objects.door_y)
            action = np.where(at_door & (self.rng.random(lanes) < 0.3), TOGGLE, action)
            let_go = (agent.carrying == 1) & (self.rng.random(lanes) < 0.05)
            action = np.where(let_go, DROP, action)
        random = self.rng.integers(0, 7, lanes)
        return np.where(self.rng.random(lanes) < self.noise, random, action).astype(np.int32)


@dataclass
class Rollout:
    """Steps of the device environment, time first, lane second."""

    states: list[Any] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    timesteps: list[Any] = field(default_factory=list)
    first_observation: np.ndarray | None = None


def roll_out(kind: str, size: int, lanes: int, agent_steps: int, seed: int) -> Rollout:
    _, reset, step = device_env(kind, size)
    wanderers = Wanderers(size, lanes, np.random.default_rng(seed))
    key = jax.random.key(seed)
    state, observation = reset(jax.random.split(key, lanes))
    rollout = Rollout(first_observation=np.asarray(observation))
    for t in range(agent_steps):
        actions = wanderers.act(*unpack(state))
        rollout.states.append(unpack(state))
        rollout.actions.append(actions)
        keys = jax.random.split(jax.random.fold_in(key, t), lanes)
        state, timestep = step(state, actions, keys)
        rollout.timesteps.append(jax.tree.map(np.asarray, timestep))
    rollout.states.append(unpack(state))
    return rollout


def compare_with_farama(
    kind: str, size: int, lanes: int, agent_steps: int, seed: int
) -> Counter[str]:
    """Replays a rollout in Farama's environment.

    Returns:
      How often each event occurred, and how many distinct episodes were walked.
    """
    rollout = roll_out(kind, size, lanes, agent_steps, seed)
    env = farama_env(kind, size)
    events: Counter[str] = Counter()
    walks: list[list[Hashable]] = []
    for lane in range(lanes):
        agent, objects = (lane_of(record, lane) for record in rollout.states[0])
        image = farama_reset(env, agent, objects)
        np.testing.assert_array_equal(rollout.first_observation[lane], image)
        walks.append([(agent, objects)])
        for t in range(agent_steps):
            action = int(rollout.actions[t][lane])
            observation, reward, terminated, truncated, _ = env.step(action)
            ours = rollout.timesteps[t]
            where = f"lane {lane}, step {t}, action {action}"
            assert np.array_equal(ours.final_observation[lane], observation["image"]), where
            assert abs(float(ours.reward[lane]) - reward) < REWARD_TOLERANCE, where
            assert bool(ours.terminated[lane]) == terminated, where
            assert bool(ours.truncated[lane]) == truncated, where
            before = (agent, objects)
            agent, objects = (lane_of(record, lane) for record in rollout.states[t + 1])
            image = observation["image"]
            events[f"action {action}"] += 1
            walks[-1].append(action)
            if terminated or truncated:
                events["goals"] += terminated
                events["truncations"] += truncated
                image = farama_reset(env, agent, objects)
                walks.append([(agent, objects)])
            else:
                count_events(events, size, before, (agent, objects), image)
            assert np.array_equal(ours.observation[lane], image), where
    events["distinct episodes"] = distinct_episodes(walks)
    return events


def count_events(events: Counter[str], size: int, before: Any, after: Any, image: Any) -> None:
    (old, _), (new, objects) = before, after
    if objects is None:
        return
    events["goal seen through the door"] += bool(new.x < objects.wall_x and 8 in image[..., 0])
    events["pick-ups"] += new.carrying > old.carrying
    events["unlockings"] += old.door == LOCKED and new.door == OPEN
    events["closings"] += old.door == OPEN and new.door == CLOSED
    events["re-openings"] += old.door == CLOSED and new.door == OPEN
    events["in the doorway"] += new.x == objects.wall_x
    if new.carrying < old.carrying:
        beside_door = abs(objects.key_x - objects.wall_x) == 1 and objects.key_y == objects.door_y
        events["drops"] += 1
        events["drops in front of the door"] += beside_door
        events["drops in the goal's room"] += objects.key_x > objects.wall_x
        events["drops beside the goal"] += objects.key_x + objects.key_y == 2 * size - 5


EVERY_ACTION = {f"action {action}": 100 for action in range(7)}
DOORKEY_EVENTS = {
    "pick-ups": 200,
    "drops": 150,
    "drops in front of the door": 20,
    "drops in the goal's room": 15,
    "drops beside the goal": 3,
    "unlockings": 100,
    "closings": 60,
    "re-openings": 40,
    "in the doorway": 100,
    "goal seen through the door": 50,
}


@pytest.mark.parametrize(
    ("size", "lanes", "agent_steps", "goals", "truncations"),
    [
        (5, 96, 260, 400, 5),
        pytest.param(6, 96, 160, 200, 0, marks=pytest.mark.slow),
        pytest.param(8, 48, 200, 60, 0, marks=pytest.mark.slow),
        (13, 16, 240, 5, 0),
        pytest.param(16, 64, 3000, 100, 5, marks=pytest.mark.slow),
    ],
)
def test_doorkey_equals_farama(
    size: int, lanes: int, agent_steps: int, goals: int, truncations: int
) -> None:
    events = compare_with_farama("doorkey", size, lanes, agent_steps, seed=size)
    require(events, {"goals": goals, "truncations": truncations})
    # A shorter walk does not come across everything.
    if lanes * agent_steps >= 10_000:
        require(events, EVERY_ACTION | DOORKEY_EVENTS)


@pytest.mark.parametrize(
    ("size", "lanes", "agent_steps", "goals", "truncations"),
    [(3, 2, 80, 0, 4), (4, 8, 70, 30, 0), (5, 64, 150, 400, 1), (16, 16, 300, 40, 0)],
)
def test_empty_equals_farama(
    size: int, lanes: int, agent_steps: int, goals: int, truncations: int
) -> None:
    events = compare_with_farama("empty", size, lanes, agent_steps, seed=size)
    require(events, {"goals": goals, "truncations": truncations})


@pytest.mark.parametrize(
    ("kind", "size"),
    [("empty", 3), ("empty", 5), ("empty", 8), ("doorkey", 5), ("doorkey", 6), ("doorkey", 8)],
)
def test_countable_states_are_those_farama_allows(kind: str, size: int) -> None:
    farama, cells = farama_env(kind, size), set()
    for seed in range(200):
        farama.reset(seed=seed)
        cells.add(tuple(map(int, farama.agent_pos)))
        for cell in product(range(size), range(size)):
            thing = farama.grid.get(*cell)
            if thing is None or thing.type in ("door", "key"):
                cells.add(cell)
    env, reset, step = device_env(kind, size)
    assert env.states is not None
    assert env.states.num_reachable == 4 * len(cells)
    number_of = jax.jit(jax.vmap(env.states.number))

    wanderers, key = Wanderers(size, 96, np.random.default_rng(0)), jax.random.key(0)
    state, _ = reset(jax.random.split(key, 96))
    numbers: dict[tuple[int, int, int], int] = {}
    for t in range(260):
        agent, _ = record = unpack(state)
        for lane, number in enumerate(np.asarray(number_of(state))):
            where = int(agent.x[lane]), int(agent.y[lane]), int(agent.direction[lane])
            assert numbers.setdefault(where, int(number)) == number
        actions = wanderers.act(*record)
        state, _ = step(state, actions, jax.random.split(jax.random.fold_in(key, t), 96))
    assert len(set(numbers.values())) == len(numbers)
    assert 0 <= min(numbers.values()) and max(numbers.values()) < env.states.num_states
    visited = {(x, y) for x, y, _ in numbers}
    assert visited <= cells
    if size <= 6:
        assert len(numbers) == env.states.num_reachable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size", "lanes", "agent_steps", "goals", "truncations"),
    [
        ("doorkey", 5, 512, 520, 6000, 100),
        ("doorkey", 6, 512, 760, 5000, 100),
        ("doorkey", 8, 256, 1300, 2000, 50),
        ("doorkey", 16, 2048, 80, 300, 0),
        ("empty", 5, 256, 220, 2000, 20),
        ("empty", 8, 256, 520, 2000, 20),
        ("empty", 16, 192, 1100, 2000, 10),
    ],
)
def test_thousands_of_episodes_equal_farama(
    kind: str, size: int, lanes: int, agent_steps: int, goals: int, truncations: int
) -> None:
    """At least 2,000 distinct ones of each task; those of DoorKey-16x16 mostly in part."""
    events = compare_with_farama(kind, size, lanes, agent_steps, seed=1000 + size)
    require(events, EVERY_ACTION | {"distinct episodes": EPISODES})
    require(events, {"goals": goals, "truncations": truncations})
    if kind == "doorkey":
        require(events, DOORKEY_EVENTS)


@pytest.mark.parametrize("size", [5, pytest.param(8, marks=pytest.mark.slow)])
def test_views_equal_faramas_in_every_pose_of_every_doorkey_layout(size: int) -> None:
    farama = farama_env("doorkey", size)
    _, _, step = device_env("doorkey", size)
    cells = list(product(range(1, size - 1), repeat=2))
    states: list[tuple[Agent, Objects]] = []
    images = []
    for wall_x, door_y in product(range(2, size - 2), range(1, size - 2)):
        start = Agent(1, 1, 0, 0, LOCKED)
        objects = Objects(wall_x, door_y, key_x=1, key_y=2)
        farama_reset(farama, start, objects)
        door = farama.grid.get(wall_x, door_y)
        for x, y in cells:
            in_doorway = (x, y) == (wall_x, door_y)
            if (x == wall_x and not in_doorway) or (x, y) == (1, 2):
                continue
            farama.agent_pos = (x, y)
            for direction, state in product(range(4), (OPEN, CLOSED, LOCKED)):
                if in_doorway and state != OPEN:
                    continue
                farama.agent_dir = direction
                door.is_open, door.is_locked = state == OPEN, state == LOCKED
                states.append((Agent(x, y, direction, 0, state), objects))
                images.append(farama.gen_obs()["image"])
    agents, objects = (
        jax.tree.map(lambda *leaves: jnp.array(leaves, jnp.int32), *records)
        for records in zip(*states, strict=True)
    )
    batch = DoorKeyState(pack_agent(agents), pack_objects(objects), jnp.zeros_like(agents.x))
    _, timestep = step(
        batch, jnp.full(len(states), DONE), jax.random.split(jax.random.key(0), len(states))
    )
    np.testing.assert_array_equal(np.asarray(timestep.observation), np.stack(images))


@pytest.mark.parametrize(("kind", "size"), [("doorkey", 6), ("empty", 5)])
def test_goal_on_the_last_step_is_terminated_and_truncated(kind: str, size: int) -> None:
    env, _, step = device_env(kind, size)
    farama = farama_env(kind, size)
    last_step = env.spec.max_agent_steps - 1
    objects = Objects(2, 1, 1, 1) if kind == "doorkey" else None
    farama_reset(farama, Agent(1, 2, 0, 0, LOCKED), objects)
    farama.agent_pos, farama.agent_dir, farama.step_count = (size - 3, size - 2), 0, last_step

    door = LOCKED if kind == "doorkey" else OPEN
    agent = pack_agent(Agent(*jnp.array([size - 3, size - 2, 0, 0, door])))
    steps = jnp.int32(last_step)
    state = EmptyState(agent, steps)
    if objects is not None:
        state = DoorKeyState(agent, pack_objects(Objects(*jnp.array(objects))), steps)
    batch = jax.tree.map(lambda leaf: leaf[None], state)
    _, timestep = step(batch, jnp.array([FORWARD]), jax.random.split(jax.random.key(0), 1))

    observation, reward, terminated, truncated, _ = farama.step(FORWARD)
    assert terminated and truncated
    assert bool(timestep.terminated[0]) and bool(timestep.truncated[0])
    assert abs(float(timestep.reward[0]) - reward) < REWARD_TOLERANCE
    np.testing.assert_array_equal(timestep.final_observation[0], observation["image"])
