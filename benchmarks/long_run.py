"""Resident memory and compilations over a run of 10 million env frames.

Prints one JSON: memory after each million frames, and how many programs XLA compiled after
the first chunk. One seed of A2C + RE3 on DoorKey-8x8, metrics read after every chunk as a
run does.

    python -m benchmarks.long_run
"""

import argparse
import dataclasses
import json

import jax
import jax.monitoring
import jax.numpy as jnp
import psutil

from benchmarks import hardware
from re3_jax.runs.build import device_program, make_environment
from re3_jax.runs.resolve import resolve

MILLION = 1_000_000
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


def main() -> None:
    """Trains and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-frames", type=int, default=10 * MILLION)
    options = parser.parse_args()

    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compilations.append(seconds) if event == COMPILE_EVENT else None
    )
    config = dataclasses.replace(resolve("doorkey_8x8", bonus="re3"), seeds=1, chunk_updates=500)
    program = device_program(config, make_environment(config.env))
    state = program.init(jnp.array([1]))
    state, metrics = program.train(state)
    jax.device_get(metrics)
    compiled_at_first = len(compilations)

    process = psutil.Process()
    frames = program.env_frames_per_chunk
    rows, next_row = [], MILLION
    while frames < options.env_frames:
        state, metrics = program.train(state)
        jax.device_get(metrics)
        frames += program.env_frames_per_chunk
        if frames >= next_row:
            rows.append(
                {
                    "env_frames": frames,
                    "resident_mebibytes": round(process.memory_info().rss / 2**20, 1),
                }
            )
            next_row += MILLION
    report = {
        "benchmark": "long_run",
        "command": "python -m benchmarks.long_run",
        "hardware": hardware.describe(),
        "programs_compiled_up_to_the_first_chunk": compiled_at_first,
        "programs_compiled_after_it": len(compilations) - compiled_at_first,
        "memory": rows,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
