"""Frames per second of DeepMind Control lanes, for each engine and renderer.

Usage: `python -m benchmarks.dmc_env [--tasks cheetah_run_sparse,...] [--lanes 1,2]`; prints one
JSON object.

All variants of a task and a number of lanes are open at once and take turns of a few steps, so
that what else the machine does meets them alike; a figure is the median over the turns. A step
is an agent step of all lanes at the task's own action repeat, drawn and brought back to this
process at 100x100 pixels. `difference_from_gl` is the mean over pixels and channels of the
absolute difference, in grey levels of 255, from the frames that the same engine's `gl` draws of
the same states.
"""

import argparse
import json
import statistics
import time
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks import hardware
from re3_jax.envs.host import envpool, gl, make, tasks
from re3_jax.envs.host.base import HostEnv
from re3_jax.envs.host.config import DMCConfig, Engine, RendererName

TASKS = ("cheetah_run_sparse", "cartpole_swingup_sparse", "hopper_hop", "quadruped_run")
LANES = (1, 2)
VARIANTS: tuple[tuple[Engine, RendererName], ...] = (
    ("dm_control", "gl"),
    ("dm_control", "gl_small_shadows"),
    ("dm_control", "gl_cheap"),
    ("dm_control", "warp"),
    ("envpool", "gl"),
    ("envpool", "gl_small_shadows"),
    ("envpool", "gl_cheap"),
)
TURNS = 9
STEPS_PER_TURN = 8


def measure(task_id: str, num_lanes: int) -> dict[str, dict[str, Any]]:
    """Times every variant of one task; a variant that cannot run here says why."""
    results: dict[str, dict[str, Any]] = {}
    envs: dict[str, HostEnv] = {}
    action_dim, repeat = tasks.find(task_id)[2:4]
    draws = np.random.default_rng(0).uniform(-1, 1, (TURNS, STEPS_PER_TURN, num_lanes, action_dim))
    actions = draws.astype(np.float32)
    try:
        for engine, renderer in VARIANTS:
            name = f"{engine} {renderer}"
            config = DMCConfig(action_repeat=repeat, engine=engine, renderer=renderer)
            start = time.perf_counter()
            try:
                envs[name] = make(task_id, config, num_lanes)
            except (ImportError, ValueError) as error:
                results[name] = {"not_run": str(error)}
                continue
            envs[name].reset(np.arange(num_lanes))
            results[name] = {"start_seconds": round(time.perf_counter() - start, 2)}
        seconds: dict[str, list[float]] = {name: [] for name in envs}
        frames: dict[str, list[np.ndarray]] = {name: [] for name in envs}
        for turn in range(TURNS):
            for name, env in envs.items():
                start = time.perf_counter()
                for action in actions[turn]:
                    env.send(action)
                    step = env.receive()
                seconds[name].append((time.perf_counter() - start) / STEPS_PER_TURN)
                frames[name].append(step.frame.astype(np.float64))
    finally:
        for env in envs.values():
            env.close()
    for name, times in seconds.items():
        step_seconds = statistics.median(times)
        results[name] |= {
            "ms_per_step": round(1000 * step_seconds, 2),
            "ms_per_step_fastest": round(1000 * min(times), 2),
            "ms_per_step_slowest": round(1000 * max(times), 2),
            "frames_per_second": round(num_lanes / step_seconds, 1),
        }
        # envpool's seeds start other episodes, so each engine is compared with itself.
        exact = f"{name.split()[0]} gl"
        if exact in frames:
            difference = np.abs(np.subtract(frames[name], frames[exact])).mean()
            results[name]["difference_from_gl"] = round(float(difference), 4)
    return results


def main() -> None:
    """Prints all figures as one JSON object."""
    parser = argparse.ArgumentParser(description="Frames per second of DeepMind Control lanes")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--lanes", default=",".join(str(number) for number in LANES))
    options = parser.parse_args()
    # The process must load the system's EGL before envpool.
    reason = envpool.failure()
    driver = gl.probe()
    figures = {
        task_id: {
            f"{number}_lanes": measure(task_id, int(number)) for number in options.lanes.split(",")
        }
        for task_id in options.tasks.split(",")
    }
    description = {
        **hardware.describe(),
        "gl_driver": driver.name if driver else None,
        "envpool_cannot_draw": reason,
        **{name: version(name) for name in ("dm_control", "mujoco", "warp-lang", "envpool")},
    }
    print(json.dumps({"hardware": description, "image_size": 100, "tasks": figures}, indent=2))


if __name__ == "__main__":
    main()
