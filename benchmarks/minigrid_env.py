"""Steps per second of the device MiniGrid, beside Farama's in the same run.

Usage: `python -m benchmarks.minigrid_env [--tasks DoorKey-8x8 MultiRoom-N6]`; prints one JSON
object.

A device figure is the median over repeats of one compiled `lax.scan` of the vmapped `step`,
the same-step reset with a fresh layout included, and the random actions and the lanes' keys
drawn inside the scan; every field of every `TimeStep` is kept, so nothing is optimised away.
Compilation is timed apart. Farama's figure is one environment in one process with random
actions drawn beforehand and `reset` when an episode ends.
"""

import argparse
import json
import statistics
import time
from typing import Any

import gymnasium
import jax
import numpy as np

from benchmarks import hardware
from re3_jax.envs.device import minigrid

TASKS = {
    "Empty-16x16": "minigrid:MiniGrid-Empty-16x16-v0",
    "DoorKey-6x6": "minigrid:MiniGrid-DoorKey-6x6-v0",
    "DoorKey-8x8": "minigrid:MiniGrid-DoorKey-8x8-v0",
    "FourRooms": "minigrid:MiniGrid-FourRooms-v0",
    "LavaGapS5": "minigrid:MiniGrid-LavaGapS5-v0",
    "LavaCrossingS11N5": "minigrid:MiniGrid-LavaCrossingS11N5-v0",
    "MultiRoom-N6": "minigrid:MiniGrid-MultiRoom-N6-v0",
    "KeyCorridorS6R3": "minigrid:MiniGrid-KeyCorridorS6R3-v0",
    "ObstructedMaze-Full": "minigrid:MiniGrid-ObstructedMaze-Full-v1",
}
"""Task -> Farama's id: those of the paper, and of each other kind the largest grid or, with lava,
the shortest episodes, in which layouts are drawn most often."""
LANES = (16, 256)
STEPS_PER_CALL = 32_000
REPEATS = 15
FARAMA_STEPS = 5_000
FARAMA_REPEATS = 3


def measure_device(task: str, lanes: int) -> dict[str, float]:
    """Times the device environment with `lanes` lanes; rates in environment steps per second."""
    env = minigrid.make(task)
    length = STEPS_PER_CALL // lanes

    def body(carry: Any, _: None) -> tuple[Any, Any]:
        state, key = carry
        key, action_key, step_key = jax.random.split(key, 3)
        actions = jax.random.randint(action_key, (lanes,), 0, 7)
        state, timestep = jax.vmap(env.step)(state, actions, jax.random.split(step_key, lanes))
        return (state, key), timestep

    def scan(state: Any, key: jax.Array) -> Any:
        return jax.lax.scan(body, (state, key), None, length=length)

    key = jax.random.key(0)
    state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(key, lanes))
    start = time.perf_counter()
    compiled = jax.jit(scan).lower(state, key).compile()
    compile_seconds = time.perf_counter() - start
    jax.block_until_ready(compiled(state, key))
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(compiled(state, key))
        seconds.append(time.perf_counter() - start)
    steps = length * lanes
    return {
        "steps_per_second": round(steps / statistics.median(seconds)),
        "steps_per_second_slowest": round(steps / max(seconds)),
        "steps_per_second_fastest": round(steps / min(seconds)),
        "compile_seconds": round(compile_seconds, 2),
    }


def measure_farama(name: str) -> float:
    """Times one of Farama's environments; environment steps per second."""
    env = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 7, FARAMA_STEPS).tolist()
    seconds = []
    for _ in range(FARAMA_REPEATS):
        start = time.perf_counter()
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        seconds.append(time.perf_counter() - start)
    return round(FARAMA_STEPS / statistics.median(seconds))


def main() -> None:
    """Prints all figures as one JSON object."""
    parser = argparse.ArgumentParser(description="Steps per second of MiniGrid.")
    parser.add_argument("--tasks", nargs="+", choices=tuple(TASKS), help="all by default")
    tasks = {}
    for task in parser.parse_args().tasks or TASKS:
        tasks[f"minigrid:{task}"] = {
            "device": {f"{lanes}_lanes": measure_device(task, lanes) for lanes in LANES},
            "farama_single_process_steps_per_second": measure_farama(TASKS[task]),
        }
    print(json.dumps({"hardware": hardware.describe(), "tasks": tasks}, indent=2))


if __name__ == "__main__":
    main()
