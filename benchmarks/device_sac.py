"""Env frames per second of SAC on states, with and without RE3, for 1, 2 and 4 seeds.

Prints one JSON. Hyperparameters are the task's own preset. Each CPU core is a
device and the seeds are spread over as many as divide them evenly. Evaluation and compilation are
excluded; the replay and the latents are full (of noise) before the clock starts. The
configurations of a task take turns, so that a machine whose speed drifts treats them alike; each
figure is a median over turns.

    python -m benchmarks.device_sac
"""

import argparse
import dataclasses
import json

import jax
import jax.numpy as jnp

from benchmarks import hardware
from benchmarks.chunks import TimedChunks
from re3_jax.intrinsic.base import ChainState
from re3_jax.runs import machine
from re3_jax.runs.build import device_program, devices_for, make_environment
from re3_jax.runs.resolve import resolve
from re3_jax.training.device_program import DeviceProgram
from re3_jax.training.train_state import TrainState

TASKS = ("gymnax:Pendulum-v1", "brax:halfcheetah")


class Contender:
    """One configuration, its state, and the times of its turns."""

    def __init__(self, task: str, bonus: str, seeds: int, chunk_steps: int):
        """Compiles, fills the replay and trains one chunk."""
        config = resolve(task, bonus=bonus)
        config = dataclasses.replace(config, seeds=seeds, chunk_updates=chunk_steps)
        self.task, self.bonus, self.seeds, self.sac = task, bonus, seeds, config.sac
        program: DeviceProgram = device_program(config, make_environment(config.env))
        state = program.init(jnp.arange(1, seeds + 1))
        sharding = jax.tree.map(lambda leaf: leaf.sharding, state)
        full = jax.jit(self._full, out_shardings=sharding)(state)
        self.chunks = TimedChunks(program, full)
        self.chunks.warm_up(1)

    def _full(self, state: TrainState) -> TrainState:
        """The state with full replay and latents, after the initial random steps."""
        capacity = self.sac.replay_capacity
        counters = state.counters
        steps = jnp.full_like(counters.agent_steps, self.sac.initial_agent_steps)
        replay = state.replay
        noise = jax.random.normal(jax.random.key(0), replay.observation.shape)
        state = state._replace(
            counters=counters._replace(agent_steps=steps),
            replay=replay._replace(
                observation=noise,
                next_observation=noise,
                discount=jnp.ones_like(replay.discount),
                num_valid=jnp.full_like(replay.num_valid, capacity),
            ),
        )
        if not isinstance(state.intrinsic, ChainState):
            return state
        re3 = state.intrinsic.bonus
        latents = jax.random.normal(jax.random.key(1), re3.ring.latents.shape)
        ring = re3.ring._replace(
            latents=latents,
            squared_norms=jnp.sum(latents * latents, axis=-1),
            num_valid=jnp.full_like(re3.ring.num_valid, capacity),
        )
        return state._replace(intrinsic=state.intrinsic._replace(bonus=re3._replace(ring=ring)))

    def report(self) -> dict:
        """The results of this configuration."""
        return {
            "task": self.task,
            "bonus": self.bonus,
            "seeds": self.seeds,
            "devices": len(devices_for(self.seeds)),
            "lanes": self.sac.num_envs,
            "updates_per_step": self.sac.updates_per_step,
            "batch_size": self.sac.batch_size,
            "hidden_dim": self.sac.hidden_dim,
            "replay_capacity": self.sac.replay_capacity,
            **self.chunks.report(self.seeds, digits=1),
        }


def main() -> None:
    """Runs all configurations and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--chunk-steps", type=int, default=20)
    options = parser.parse_args()
    machine.use_cpu_devices(machine.usable_cores())

    throughput = []
    for task in options.tasks:
        contenders = [
            Contender(task, bonus, seeds, options.chunk_steps)
            for seeds in options.seeds
            for bonus in ("none", "re3")
        ]
        for _ in range(options.turns):
            for contender in contenders:
                contender.chunks.turn()
        throughput += [contender.report() for contender in contenders]
    report = {
        "benchmark": "device_sac",
        "command": "python -m benchmarks.device_sac",
        "hardware": hardware.describe(),
        "throughput": throughput,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
