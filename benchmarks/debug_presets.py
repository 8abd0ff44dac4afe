"""Seconds of `PRESET=debug` of each suite and agent, from the start of the process to its end.

Usage: `python -m benchmarks.debug_presets [--only TASK]`; prints one JSON object.

Each run starts with empty caches, so its time includes importing, compiling (XLA's programs, warp's
kernels), training, evaluating and writing the run folder. One run at a time, on all cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks import hardware

CASES = {
    "doorkey_6x6": ("a2c", "ppo", "rainbow"),
    "gymnax:CartPole-v1": ("a2c", "rainbow"),
    "gymnax:Breakout-MinAtar": ("rainbow",),
    "gymnax:Pendulum-v1": ("rad", "ppo"),
    "brax:halfcheetah": ("rad",),
    "pixels:bar": ("dreamer",),
    "cheetah_run_sparse": ("rad", "drq", "dreamer"),
    "montezuma_revenge": ("rainbow",),
}
"""Task -> agents; one task per suite and per kind of observation and action."""


def seconds_of(task: str, agent: str) -> float:
    """Wall seconds of one run with its default bonus.

    Raises:
      subprocess.CalledProcessError: the run failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "experiments.train", "--env", task, "--agent", agent]
        command += ["--preset", "debug", "--out", f"{folder}/run"]
        environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        started = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return time.perf_counter() - started


def main() -> None:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TASK", help="tasks that contain it")
    options = parser.parse_args()
    rows = [
        {"task": task, "agent": agent, "seconds": round(seconds_of(task, agent), 1)}
        for task, agents in CASES.items()
        if options.only in task
        for agent in agents
    ]
    report = {"benchmark": "debug_presets", "hardware": hardware.describe(), "runs": rows}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
