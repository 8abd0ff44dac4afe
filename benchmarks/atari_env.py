"""Env frames per second of Atari lanes, and how much of their time the host loop hides.

    python -m benchmarks.atari_env [--games GAME ...] [--lanes N ...] [--turns N] [--skip-loop]

Prints one JSON object. Our lanes and envpool's own environment with the same options take turns,
with the same random actions; a figure is the median over turns, in env frames (four to an agent
step) of all lanes. Our lanes add a thread, new arrays of frames for each step, and immediate
resets. `loop` is the data-efficient Rainbow with RE3 on one lane: each part of an agent step alone,
and the whole loop (`make profile`).
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import hardware
from re3_jax.commands.profile import profile_host
from re3_jax.envs.base import Discrete
from re3_jax.envs.host import atari, atari_games, envpool
from re3_jax.envs.host.config import AtariConfig
from re3_jax.runs import machine
from re3_jax.runs.build import task_spec
from re3_jax.runs.resolve import resolve

GAMES = ("montezuma_revenge", "beam_rider", "asterix", "seaquest")
LANES = (1, 16, 64)
AGENT_STEPS_PER_TURN = 4_000
"""Of all lanes."""


def ours(game: str, num_lanes: int) -> tuple[Callable[[np.ndarray], Any], Callable[[], None]]:
    """A step of our lanes, and a function that closes them."""
    env = atari.AtariLanes(game, AtariConfig(), num_lanes)
    env.reset(np.arange(num_lanes))

    def step(action: np.ndarray) -> Any:
        env.send(action)
        return env.receive()

    return step, env.close


def theirs(game: str, num_lanes: int) -> tuple[Callable[[np.ndarray], Any], Callable[[], None]]:
    """A step of envpool's own environment, with the same options."""
    env = envpool.load().make_gymnasium(
        atari_games.pool_name(game),
        num_envs=num_lanes,
        seed=list(range(num_lanes)),
        stack_num=1,
        use_inter_area_resize=False,
        use_fire_reset=False,
    )
    env.reset()
    return env.step, lambda: None


def frames_per_second(game: str, num_lanes: int, turns: int) -> dict[str, float]:
    """Frames per second of both environments, by name."""
    space = atari.spec(game, AtariConfig()).action_space
    assert isinstance(space, Discrete)
    count = max(1, AGENT_STEPS_PER_TURN // num_lanes)
    actions = np.random.default_rng(0).integers(0, space.num_actions, (count, num_lanes))
    actions = actions.astype(np.int32)
    contenders = {"re3_jax": ours(game, num_lanes), "envpool": theirs(game, num_lanes)}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, (step, _) in contenders.items():
            start = time.perf_counter()
            for action in actions:
                step(action)
            seconds[name].append(time.perf_counter() - start)
    for _, close in contenders.values():
        close()
    frames = atari.FRAME_SKIP * count * num_lanes
    return {name: round(frames / statistics.median(times)) for name, times in seconds.items()}


def loop(game: str) -> dict[str, Any]:
    """Milliseconds per agent step of the host loop and of its parts."""
    config = replace(resolve(game, preset="data_efficient"), seeds=1)
    with tempfile.TemporaryDirectory() as folder:
        result = profile_host(config, task_spec(config), Path(folder))
    together = sum(result.parts.values())
    hidden = max(0.0, together - result.milliseconds)
    return {
        "game": game,
        **asdict(config.rainbow),
        "ms_per_agent_step": round(result.milliseconds, 2),
        "ms_of_parts": {name: round(value, 2) for name, value in result.parts.items()},
        "ms_hidden": round(hidden, 2),
        "percent_of_lanes_hidden": round(100 * min(1.0, hidden / result.parts["lanes"])),
    }


def main() -> None:
    """Runs everything and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--lanes", nargs="+", type=int, default=list(LANES))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--skip-loop", action="store_true")
    options = parser.parse_args()
    report: dict[str, Any] = {
        "hardware": {**hardware.describe(), "envpool": version("envpool")},
        "cores": machine.usable_cores(),
        "env_frames_per_second": {
            game: {
                f"{number}_lanes": frames_per_second(game, number, options.turns)
                for number in options.lanes
            }
            for game in options.games
        },
    }
    if not options.skip_loop:
        report["loop"] = loop(options.games[0])
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
