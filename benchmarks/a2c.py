"""Env frames per second of A2C or PPO on DoorKey-8x8, with and without RE3, for 1 to 20 seeds.

RE3 runs both with copies of a latent merged, as in the presets, and with a plain ring; the part
`knn` is the search of the plain ring.

Prints one JSON. As in a run, each number of seeds has a process of its own, whose devices of the
CPU divide them evenly. Evaluation and compilation are excluded; the ring of 10,000 latents is full
before the clock starts. The configurations of a process take turns, so that a machine whose speed
drifts treats them alike; each figure is a median over turns.

    python -m benchmarks.a2c [--agent ppo] [--rows none merged plain]
"""

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import hardware
from benchmarks.chunks import TimedChunks
from benchmarks.knn import finished, seconds_of
from re3_jax import knn
from re3_jax.runs import machine
from re3_jax.runs.build import device_program, devices_for, make_environment, side_by_side
from re3_jax.runs.resolve import resolve

TASK = "doorkey_8x8"
ENV_FRAMES_PER_CHUNK = 12_800
"""Of each seed, in whole updates."""

KNN_REPEATS = 50

ROWS: dict[str, tuple[str, bool | None]] = {
    "none": ("none", None),
    "merged": ("re3", True),
    "plain": ("re3", False),
}
"""Name -> bonus, and whether copies of a latent are merged."""


class Contender:
    """One configuration, its state, and the times of its turns."""

    def __init__(
        self,
        bonus: str,
        seeds: int,
        preset: str,
        merge_copies: bool | None = None,
        agent: str = "a2c",
    ):
        """Compiles, and trains until the ring is full; `merge_copies` overrides the preset's."""
        config = resolve(TASK, agent=agent, bonus=bonus, preset=preset)
        if merge_copies is not None:
            re3 = dataclasses.replace(config.re3, merge_copies=merge_copies)
            config = dataclasses.replace(config, re3=re3)
        chunk = ENV_FRAMES_PER_CHUNK // config.frames_per_update(action_repeat=1)
        config = dataclasses.replace(config, seeds=seeds, chunk_updates=chunk)
        self.bonus, self.seeds, self.config = bonus, seeds, config
        self.devices = devices_for(seeds)
        if self.devices[0].platform == "cpu":
            self.devices = devices_for(seeds, self.devices[: side_by_side(seeds)])
        env = make_environment(config.env)
        program = device_program(config, env, self.devices)
        self.chunks = TimedChunks(program, program.init(jnp.arange(1, seeds + 1)))
        self.chunks.warm_up(config.re3.ring_size // program.env_frames_per_chunk + 1)

    @property
    def milliseconds_per_update(self) -> float:
        """Median wall time of one update of all seeds."""
        return self.chunks.seconds / self.config.chunk_updates * 1e3

    def report(self) -> dict:
        """The results of this configuration."""
        return {
            "bonus": self.bonus,
            "merge_copies": self.bonus == "re3" and self.config.re3.merge_copies,
            "seeds": self.seeds,
            "devices": len(self.devices),
            "milliseconds_per_update": round(self.milliseconds_per_update, 3),
            **self.chunks.report(self.seeds),
        }


def time_knn(contender: Contender) -> float:
    """Milliseconds of one seed's k-NN alone: one rollout against its full ring, in a scan."""
    config = contender.config.re3
    ring = jax.tree.map(lambda leaf: leaf[0], contender.chunks.state.intrinsic.bonus.ring)
    batch = contender.config.frames_per_update(action_repeat=1)

    @jax.jit
    def repeat(ring):
        def step(total, start):
            queries = jax.lax.dynamic_slice_in_dim(ring.latents, start, batch)
            distance = knn.mean_distance(
                queries, ring, k=config.last_neighbour, first=config.first_neighbour
            )
            return total + distance.sum(), None

        starts = jnp.arange(KNN_REPEATS) * batch % (config.ring_size - batch)
        return jax.lax.scan(step, jnp.zeros(()), starts)[0]

    return _milliseconds(finished(repeat, ring))


def time_matmul(batch: int, rows: int, latent_dim: int) -> float:
    """Milliseconds of the product that any exact k-NN must do, in cache-sized blocks."""
    block = 2000
    ring_key, query_key = jax.random.split(jax.random.key(0))
    ring = jax.random.normal(ring_key, (rows // block, block, latent_dim))
    queries = jax.random.normal(query_key, (latent_dim, batch))

    @jax.jit
    def product(ring, queries):
        def step(carry, rows):
            # The sum keeps the product alive and reads it while it is in cache.
            return carry + (rows @ queries)[:8].sum(), None

        def once(carry, _):
            return jax.lax.scan(step, carry, ring)[0], None

        return jax.lax.scan(once, jnp.zeros(()), length=KNN_REPEATS)[0]

    return _milliseconds(finished(product, ring, queries))


def _milliseconds(run: Callable[[], Any]) -> float:
    """Median time of one of the `KNN_REPEATS` searches or products of a run."""
    run()
    return statistics.median(seconds_of(run) for _ in range(9)) / KNN_REPEATS * 1e3


def compare_knn(single: Contender) -> dict:
    """The search of a plain ring alone, beside its product and an update of one seed."""
    batch = single.config.frames_per_update(action_repeat=1)
    knn_ms = time_knn(single)
    latent_dim = single.chunks.state.intrinsic.bonus.ring.latents.shape[-1]
    floor_ms = time_matmul(batch, single.config.re3.ring_size, latent_dim)
    return {
        "queries": batch,
        "milliseconds_alone": round(knn_ms, 3),
        "matmul_milliseconds": round(floor_ms, 3),
        "ratio_to_matmul": round(knn_ms / floor_ms, 2),
        "share_of_an_update_of_one_seed": round(knn_ms / single.milliseconds_per_update, 3),
    }


def in_processes(options: argparse.Namespace) -> dict:
    """Measures each number of seeds in a process: unused devices would slow the others down."""
    more = ["--turns", str(options.turns), "--preset", options.preset, "--agent", options.agent]
    more += ["--rows", *options.rows]
    reports = []
    for seeds in options.seeds:
        command = [sys.executable, "-m", "benchmarks.a2c", "--seeds", str(seeds), *more]
        reports.append(
            json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        )
    for each in reports:
        del each["command"]
    return reports[0] | {"throughput": [row for each in reports for row in each["throughput"]]}


def measure(options: argparse.Namespace) -> dict:
    """Measures one number of seeds in this process."""
    (seeds,) = options.seeds
    machine.use_cpu_devices(side_by_side(seeds))

    contenders = [
        Contender(bonus, seeds, options.preset, merge_copies, options.agent)
        for bonus, merge_copies in map(ROWS.__getitem__, options.rows)
    ]
    for _ in range(options.turns):
        for contender in contenders:
            contender.chunks.turn()
    report = {
        "agent": options.agent,
        "task": TASK,
        "preset": options.preset,
        "ring_size": contenders[0].config.re3.ring_size,
        "hardware": hardware.describe(),
        "throughput": [contender.report() for contender in contenders],
    }
    if "plain" in options.rows:
        report["knn"] = compare_knn(contenders[options.rows.index("plain")])
    return report


def main() -> None:
    """Runs all configurations and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 5, 10, 20])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--preset", default="released")
    parser.add_argument("--agent", choices=["a2c", "ppo"], default="a2c")
    parser.add_argument("--rows", choices=ROWS, nargs="+", default=list(ROWS))
    options = parser.parse_args()
    found = measure(options) if len(options.seeds) == 1 else in_processes(options)
    command = " ".join(["python -m benchmarks.a2c", *sys.argv[1:]])
    print(json.dumps({"benchmark": "a2c", "command": command} | found, indent=2))


if __name__ == "__main__":
    main()
