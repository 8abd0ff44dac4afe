"""Milliseconds of a step of loops of other libraries, with and without RE3: the examples' loops.

    python -m benchmarks.loops [--rounds N] [--only NAME ...]

Prints one JSON object. A step is one step of all 16 lanes, with its share of the learning. In every
round every loop runs without and with RE3, one after the other, in turns in either order. A time is
the median over updates after the compilation (over steps for the DQN), then over rounds. `cpu_ms`
is the processor time of all threads, which other work on the machine changes less than wall time;
`ratio` compares the two runs of a round. `load` is the machine's mean load in the last minute, at
the beginning and at the end: of a quiet machine it is at most the number of cores. Tasks are small:
a step costs little without the bonus.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import torch

from benchmarks import hardware
from re3_jax.runs import machine

with warnings.catch_warnings():
    # brax warns that it is unmaintained, and that so is what it imports.
    warnings.simplefilter("ignore")
    from examples import brax_ppo
from stable_baselines3.common.callbacks import BaseCallback

from examples import cleanrl_ppo, purejaxrl_ppo, sb3_ppo, torch_dqn
from re3_jax.intrinsic import none
from re3_jax.intrinsic.base import IntrinsicReward

UPDATES, WARM_UPDATES = 12, 2
DQN_STEPS, DQN_WARM_STEPS = 500, 100
BRAX_EPOCHS, BRAX_EPOCH_STEPS = 6, 4_000
CALLS = 9


class Clock:
    """Wall time and processor time (of all threads) at the reports of a loop."""

    def __init__(self) -> None:
        """No report yet."""
        self.times: list[tuple[float, float]] = []

    def __call__(self, *given: Any) -> None:
        """One more update or step is done."""
        self.times.append((time.perf_counter(), time.process_time()))

    def seconds(self, warm: int) -> np.ndarray:
        """Medians of both between reports, after the first `warm`."""
        return np.median(np.diff(self.times[warm - 1 :], axis=0), axis=0)


class RolloutClock(BaseCallback):
    """Reports every rollout of Stable-Baselines3."""

    def __init__(self, clock: Clock):
        """Reports to `clock`."""
        super().__init__()
        self.clock = clock

    def _on_rollout_start(self) -> None:
        self.clock()

    def _on_step(self) -> bool:
        return True


def sb3(bonus: IntrinsicReward | None) -> np.ndarray:
    """Seconds of a step of Stable-Baselines3's PPO."""
    clock = Clock()
    sb3_ppo.train(bonus, 0, UPDATES, RolloutClock(clock))
    return clock.seconds(WARM_UPDATES) / sb3_ppo.ROLLOUT


def cleanrl(bonus: IntrinsicReward | None) -> np.ndarray:
    """Seconds of a step of the PPO in one file."""
    clock = Clock()
    cleanrl_ppo.train(bonus, 0, UPDATES, clock)
    return clock.seconds(WARM_UPDATES) / cleanrl_ppo.ROLLOUT


def dqn(bonus: IntrinsicReward | None) -> np.ndarray:
    """Seconds of a step of the DQN in plain PyTorch."""
    clock = Clock()
    torch_dqn.train(bonus, 0, DQN_STEPS, clock)
    return clock.seconds(DQN_WARM_STEPS)


def purejaxrl(bonus: IntrinsicReward | None) -> np.ndarray:
    """Seconds of a step of the jitted PPO."""
    train = partial(purejaxrl_ppo.train, bonus=bonus or none(), num_updates=UPDATES)
    program, key = jax.jit(train), jax.random.key(0)
    clock = Clock()
    for _ in range(CALLS):
        clock(jax.block_until_ready(program(key)))
    return clock.seconds(1) / (UPDATES * purejaxrl_ppo.ROLLOUT)


def brax(bonus: IntrinsicReward | None) -> np.ndarray:
    """Seconds of a step of brax's PPO, without its evaluations."""
    clock = Clock()
    options = {"num_evals": BRAX_EPOCHS + 1, "run_evals": False, "progress_fn": clock}
    brax_ppo.train(brax_ppo.TwoRooms(), bonus, 0, BRAX_EPOCHS * BRAX_EPOCH_STEPS, **options)
    return clock.seconds(WARM_UPDATES) * brax_ppo.NUM_ENVS / BRAX_EPOCH_STEPS


LOOPS: dict[str, tuple[Callable[[IntrinsicReward | None], np.ndarray], Any]] = {
    "sb3_ppo": (sb3, sb3_ppo),
    "cleanrl_ppo": (cleanrl, cleanrl_ppo),
    "torch_dqn": (dqn, torch_dqn),
    "purejaxrl_ppo": (purejaxrl, purejaxrl_ppo),
    "brax_ppo": (brax, brax_ppo),
}


def pair(name: str, is_re3_first: bool) -> np.ndarray:
    """Milliseconds [without or with RE3, wall or processor time] of one loop."""
    step, example = LOOPS[name]
    bonuses = (None, example.RE3)
    order = (1, 0) if is_re3_first else (0, 1)
    found = {which: step(bonuses[which]) for which in order}
    return 1e3 * np.array([found[0], found[1]])


def figures_of(pairs: np.ndarray) -> dict[str, Any]:
    """Medians over rounds, and those of the differences and ratios within a round."""
    figures: dict[str, Any] = {}
    for place, clock in enumerate(("", "cpu_")):
        without, with_re3 = pairs[:, 0, place], pairs[:, 1, place]
        figures[f"{clock}ms"] = round(float(np.median(without)), 3)
        figures[f"{clock}ms_with_re3"] = round(float(np.median(with_re3)), 3)
        figures[f"{clock}ms_of_re3"] = round(float(np.median(with_re3 - without)), 3)
        ratios = with_re3 / without
        figures[f"{clock}ratio"] = round(float(np.median(ratios)), 3)
        figures[f"{clock}ratio_of_each_round"] = [round(float(ratio), 3) for ratio in ratios]
    return figures


def main() -> None:
    """Measures and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each loop")
    parser.add_argument("--only", nargs="+", choices=LOOPS, default=[*LOOPS], help="loops to run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    machine.keep_compiled_programs()
    warnings.simplefilter("ignore")
    load = [round(os.getloadavg()[0], 1)]
    pairs: dict[str, list[np.ndarray]] = {name: [] for name in options.only}
    for number in range(options.rounds):
        for name, found in pairs.items():
            found.append(pair(name, is_re3_first=number % 2 == 1))
    report = {
        "benchmark": "loops",
        "hardware": hardware.describe(),
        "load": [*load, round(os.getloadavg()[0], 1)],
        "rounds": options.rounds,
        "lanes": sb3_ppo.NUM_ENVS,
        "loops": {name: figures_of(np.stack(found)) for name, found in pairs.items()},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
