"""Where the time of a run with environments on the host goes, and what of it is hidden.

Each part of an agent step is timed alone, with the device idle before and after it, and the
loop as it runs. What the loop takes less than its parts is what it does at the same time: the
lanes step while the device learns.
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import bonuses, suites
from experiments.agents import AGENTS
from experiments.build import host_program, seed_numbers
from experiments.config import RunConfig, flatten, lanes, options_of_agent
from experiments.errors import UsageError
from re3_jax.agents.base import Learner
from re3_jax.envs.base import EnvSpec
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.train_state import TrainState

CHUNK = 10
"""Agent steps in one chunk here."""

REPEATS = 5


class HostProfile(NamedTuple):
    """Milliseconds per agent step of all seeds.

    Attributes:
      loop: the loop as it runs, the best of several chunks.
      parts: each part alone, the median of several.
      latents: rows of the ring that held a latent.
      env_frames: of all seeds, in one agent step.
    """

    loop: float
    parts: dict[str, float]
    latents: int
    env_frames: int


def profile_host(config: RunConfig, spec: EnvSpec, folder: Path) -> HostProfile:
    """Runs, times and traces the loop of `config`; the trace goes into `folder`.

    Raises:
      UsageError: the configuration cannot be run.
    """
    agent, options = AGENTS[config.agent], options_of_agent(config)
    if not hasattr(options, "initial_agent_steps"):
        raise UsageError(
            f"a profile is of single agent steps, and {agent.name} learns in bursts between whole "
            f"episodes: run make bench BENCH={agent.name}_update, or profile another agent"
        )
    # The first update follows the first chunk, once a transition is whole.
    first = max(CHUNK, _span(config) + 1) * options.num_envs
    options = dataclasses.replace(options, initial_agent_steps=first)
    config = dataclasses.replace(config, chunk_updates=CHUNK, **{agent.group: options})
    program = host_program(config, spec, print)
    try:
        return _measure(program, config, spec, folder)
    finally:
        program.close()


def report(config: RunConfig, result: HostProfile) -> str:
    """The table that is printed."""
    together = sum(result.parts.values())
    renderer = suites.drawn_by(config)
    drawn = f", renderer {renderer}" if renderer else ""
    lines = [
        f"{config.env}: {config.agent} + {config.bonus}, preset {config.preset}, {config.seeds} "
        f"seed(s){drawn}, {result.latents:,} latents in the ring, on "
        f"{jax.devices()[0].device_kind}",
        f"{result.loop:.1f} ms per agent step = {1e3 * result.env_frames / result.loop:,.0f} env "
        "frames/s in all",
        "",
        f"{'part, alone':<22}{'ms':>10}",
        *(f"{name:<22}{value:>10.1f}" for name, value in result.parts.items()),
        f"{'one after the other':<22}{together:>10.1f}",
        f"{'hidden by the loop':<22}{max(0.0, together - result.loop):>10.1f}",
    ]
    return "\n".join(lines)


def _measure(program: HostProgram, config: RunConfig, spec: EnvSpec, folder: Path) -> HostProfile:
    state = program.init(jnp.asarray(seed_numbers(config), jnp.int32))
    program.compile(state)
    for _ in range(2 + _span(config) // CHUNK):
        state, _ = program.train(state)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        state, _ = program.train(state)
        jax.block_until_ready(state)
        seconds.append(time.perf_counter() - start)
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with jax.profiler.trace(str(folder), profiler_options=options):
        state, _ = program.train(state)
        jax.block_until_ready(state)
    has_ring = bonuses.keeps_latents(flatten(config))
    latents = int(state.counters.agent_steps[0]) if has_ring else 0
    return HostProfile(
        loop=1e3 * min(seconds) / CHUNK,
        parts=_parts(program, state),
        latents=latents,
        env_frames=config.seeds * lanes(config) * spec.action_repeat,
    )


def _span(config: RunConfig) -> int:
    """Environment steps of one transition."""
    span = AGENTS[config.agent].span
    return 1 if span is None else int(getattr(options_of_agent(config), span))


def _updates_per_step(learner: Learner, agent_steps: int) -> float:
    """Updates that go with one step of all lanes, on average from now on."""
    ends = range(agent_steps, agent_steps + 1_000 * learner.num_lanes, learner.num_lanes)
    return float(np.mean([learner.updates_due(end - learner.num_lanes, end) for end in ends]))


def _parts(program: HostProgram, state: TrainState) -> dict[str, float]:
    learner, lanes, counters, visited = state.learner, state.lanes, state.counters, state.visited
    programs, env = program.programs, program.lanes()
    times: dict[str, list[float]] = {"act": [], "lanes": [], "update": [], "store": []}

    def timed(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = jax.block_until_ready(function(*arguments))
        times[name].append(time.perf_counter() - start)
        return result

    def step(action: jax.Array) -> Any:
        env.send(np.asarray(action).reshape(env.num_lanes, -1))
        return env.receive()

    updates_per_step = _updates_per_step(program.learner, int(counters.agent_steps[0]))
    for i in range(REPEATS * len(programs.learn)):
        learn = programs.learn[i % len(programs.learn)]
        memory, action = timed("act", programs.act, learner, state.key, counters.agent_steps)
        made = timed("lanes", step, action)
        learner = learner._replace(memory=memory)
        learner, counters, _ = timed("update", learn, learner, counters, state.key)
        arguments = learner, lanes, counters, visited, action, program.on_device(made)
        learner, lanes, counters, visited, _ = timed("store", programs.store, *arguments)
    # The mean over a whole cycle of the agent's updates, which differ; else the median.
    update = times.pop("update")
    medians = {name: 1e3 * float(np.median(values)) for name, values in times.items()}
    cycle = np.median(np.reshape(update, (REPEATS, -1)), axis=0)
    return {
        "act": medians["act"],
        "lanes": medians["lanes"],
        "update": 1e3 * float(np.mean(cycle)) * updates_per_step,
        "store": medians["store"],
    }
