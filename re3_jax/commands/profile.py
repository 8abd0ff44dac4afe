"""`python -m re3_jax.commands.profile --env TASK ...`: where the time of a run goes.

Times and traces chunks of the program that `re3_jax.commands.train` runs, with the same options.
The trace opens in Perfetto and in XProf.

- On the device, the trace says how long each part of an update takes, once the ring of latents is
  full or half a minute has passed. On CPU the profile uses one device, although a run spreads its
  seeds over the cores, so that the shares add up.
- With environments on the host, each part of an agent step is timed alone, with the device idle
  before and after it, and so is the whole loop. The loop takes less time than its parts together,
  because the lanes step while the device learns; those of an on-policy agent wait meanwhile.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.agents.base import Learner
from re3_jax.commands.attribution import OTHER, milliseconds_by_scope
from re3_jax.envs.base import EnvSpec
from re3_jax.plural import number_of
from re3_jax.runs import bonuses, build, installing, machine, run_folder, suites
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.config import RunConfig, flatten
from re3_jax.runs.errors import UsageError, in_one_sentence, refuse_lack_of_memory
from re3_jax.runs.options import parse
from re3_jax.runs.validate import sizes
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.train_state import TrainState

PARTS = {
    "env": "environment",
    "act": "act",
    "encode": "encode",
    "knn": "k-NN",
    "bonus": "bonus, the rest",
    "update": "update",
    OTHER: "other",
}
"""Named scope of the device loop -> its name in the table."""

TRACED_UPDATES = 25
"""Updates per chunk on the device: traces grow by about 0.3 MB per update and seed."""

TRACED_STEPS = 10
"""Agent steps per chunk on the host; an on-policy agent's chunk is a rollout."""

REPEATS = 5

FILL_SECONDS = 30.0
"""Longest wait for a ring to fill, such as one of 100,000 states."""


class Profile(NamedTuple):
    """The measurements, over all seeds.

    Attributes:
      unit: what one measurement covers: an update or an agent step.
      milliseconds: wall time per unit without the profiler, the best of several chunks.
      parts: part -> milliseconds.
      env_frames: env frames per unit.
      remark: how the parts make up the whole, for the table.
    """

    unit: str
    milliseconds: float
    parts: dict[str, float]
    env_frames: int
    remark: str


def _soon_learning(config: RunConfig, chunk: int) -> RunConfig:
    """A run whose first update comes after its first chunk, once a transition is complete.

    Raises:
      UsageError: it learns in bursts.
    """
    agent, options = AGENTS[config.agent], config.of_agent
    if agent.in_bursts:
        name = f"{agent.name}_update"
        has_bench = (installing.ROOT / "benchmarks" / f"{name}.py").is_file()
        bench = f"run make bench BENCH={name}, or " * has_bench
        raise UsageError(
            f"a profile is of single agent steps, and {agent.name} learns in bursts between whole "
            f"episodes: {bench}profile another agent"
        )
    if agent.first_update is None:
        return config
    first = max(chunk, _span(config) + 1) * options.num_envs
    options = dataclasses.replace(options, **{agent.first_update: first})
    return dataclasses.replace(config, **{agent.group: options})


def _span(config: RunConfig) -> int:
    """Agent steps over which a transition goes on."""
    agent = AGENTS[config.agent]
    return int(getattr(config.of_agent, agent.span)) if agent.span else 1


def _open(folder: Path, config: RunConfig, program: build.Runner) -> None:
    """Makes the folder of a trace, unless the program cannot be traced."""
    with build.refused_by_parts(config):
        program.abstract_state(config.seeds)
    run_folder.make_empty(folder)


def profile(config: RunConfig, spec: EnvSpec, folder: Path) -> Profile:
    """Profiles an update on the device; writes the trace to `folder`."""
    config = _soon_learning(config, TRACED_UPDATES)
    config = dataclasses.replace(config, chunk_updates=TRACED_UPDATES)
    program = build.device_program(config, build.make_environment(config.env))
    _open(folder, config, program)
    state = program.init(jnp.asarray(config.seed_numbers, jnp.int32))
    train = program.train.lower(state).compile()
    frames = config.frames_per_update(spec.action_repeat)
    ring_rows = config.re3.ring_size if bonuses.keeps_latents(flatten(config)) else 0
    for _ in range(2 + _span(config) // TRACED_UPDATES):
        state, _ = jax.block_until_ready(train(state))
    filled, started = 0, time.perf_counter()
    while filled <= ring_rows and time.perf_counter() - started < FILL_SECONDS:
        state, _ = jax.block_until_ready(train(state))
        filled += frames * TRACED_UPDATES // spec.action_repeat
    best, traced, _ = _timed_and_traced(train, state, TRACED_UPDATES, folder, detail=1)
    scopes = milliseconds_by_scope(folder, train.as_text() or "", [p for p in PARTS if p != OTHER])
    share = TRACED_UPDATES * len(_devices(config))
    parts = {part: scopes[scope] / share for scope, part in PARTS.items()}
    return Profile(
        unit="update",
        milliseconds=best,
        parts={**parts, "between instructions": max(0.0, traced - sum(parts.values()))},
        env_frames=frames * config.seeds,
        # The profiler slows small instructions most.
        remark=f"{traced:.3f} ms under the profiler, where",
    )


def profile_host(config: RunConfig, spec: EnvSpec, folder: Path) -> Profile:
    """Profiles an agent step of the host loop; writes the trace to `folder`."""
    agent, config = AGENTS[config.agent], _soon_learning(config, TRACED_STEPS)
    options, span = config.of_agent, _span(config)
    updates = 1 if agent.on_policy else TRACED_STEPS
    config = dataclasses.replace(config, chunk_updates=updates)
    chunk = updates * config.steps_per_update
    with contextlib.closing(build.build(config, spec, print)) as program:
        assert isinstance(program, HostProgram)
        _open(folder, config, program)
        state = program.init(jnp.asarray(config.seed_numbers, jnp.int32))
        program.compile(state)
        for _ in range(2 + span // TRACED_STEPS):
            state, _ = jax.block_until_ready(program.train(state))
        best, _, state = _timed_and_traced(program.train, state, chunk, folder, detail=2)
        has_ring = bonuses.keeps_latents(flatten(config))
        ring_rows = config.re3.ring_size if agent.on_policy else options.replay_capacity
        latents = min(int(state.counters.agent_steps[0]), ring_rows) if has_ring else 0
        parts = _parts(program, state)
    together = sum(parts.values())
    return Profile(
        unit="agent step",
        milliseconds=best,
        parts=parts,
        env_frames=config.seeds * options.num_envs * spec.action_repeat,
        remark=(
            f"with {latents:,} latents in the ring; its parts, each alone, take {together:.3f} ms, "
            f"of which the loop hides {max(0.0, together - best):.3f}"
        ),
    )


def _timed_and_traced(
    train: Callable[..., Any], state: TrainState, units: int, folder: Path, detail: int
) -> tuple[float, float, TrainState]:
    """Milliseconds per unit in the fastest of several chunks and in one traced; the state then."""

    def milliseconds() -> float:
        nonlocal state
        start = time.perf_counter()
        state, _ = jax.block_until_ready(train(state))
        return 1e3 * (time.perf_counter() - start) / units

    best = min(milliseconds() for _ in range(REPEATS))
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, detail
    with jax.profiler.trace(str(folder), profiler_options=options):
        return best, milliseconds(), state


def updates_per_step(learner: Learner, agent_steps: int) -> float:
    """Average number of updates per step of all lanes, from now on."""
    # Of many steps, because a rollout of hundreds of them has one update.
    ends = range(agent_steps, agent_steps + 100_000 * learner.num_lanes, learner.num_lanes)
    return float(np.mean([learner.updates_due(end - learner.num_lanes, end) for end in ends]))


def _parts(program: HostProgram, state: TrainState) -> dict[str, float]:
    programs, env = program.programs, program.lanes()
    times: dict[str, list[float]] = {"act": [], "lanes": [], "update": [], "store": []}

    def timed(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = jax.block_until_ready(function(*arguments))
        times[name].append(1e3 * (time.perf_counter() - start))
        return result

    def step(action: jax.Array) -> Any:
        program.send(action)
        return env.receive()

    due = updates_per_step(program.learner, int(state.counters.agent_steps[0]))
    for i in range(REPEATS * len(programs.learn)):
        learn = programs.learn[i % len(programs.learn)]
        memory, action = timed("act", programs.act, state)
        made = timed("lanes", step, action)
        state, _ = timed("update", learn, state._replace(memory=memory))
        state, _ = timed("store", programs.store, state, action, program.on_device(made))
    parts = {name: float(np.median(values)) for name, values in times.items()}
    # The mean over a whole cycle, because the agent's updates differ.
    cycle = np.median(np.reshape(times["update"], (REPEATS, -1)), axis=0)
    return parts | {"update": float(np.mean(cycle)) * due}


def report(config: RunConfig, result: Profile) -> str:
    """The table that is printed."""
    devices, renderer = _devices(config), suites.drawn_by(config)
    drawn = f", drawn by {renderer}" if renderer else ""
    title, total = f"ms per {result.unit}", sum(result.parts.values())
    frames_per_second = 1e3 * result.env_frames / result.milliseconds
    lines = [
        f"{config.title()}{drawn}, {result.env_frames} env frames per {result.unit}, on "
        + number_of(len(devices), f"{devices[0].device_kind} device"),
        f"{result.milliseconds:.3f} {title} = {frames_per_second:,.0f} env frames/s in all; "
        f"{result.remark}",
        "",
        f"{'part':<22}{title:>17}{'share':>8}",
        *(f"{part:<22}{ms:>17.3f}{ms / total:>8.1%}" for part, ms in result.parts.items()),
    ]
    return "\n".join(lines)


def _devices(config: RunConfig) -> list[jax.Device]:
    return build.devices_of(config)


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (0 or 2)."""
    config = parse(list(sys.argv[1:] if argv is None else argv))
    if config.resume:
        raise UsageError("a profile trains a run of its own and resumes none: leave --resume out")
    if config.init is not None:
        raise UsageError("--init has no effect on how long an update takes: leave it out")
    on_host = suites.host_of(config.env) is not None
    if on_host or config.devices_per_seed > 1:
        machine.use_cpu_devices(build.cpu_devices(config) if on_host else config.devices_per_seed)
    config, spec = build.prepared(config)
    folder = (
        Path(config.out) if config.out else run_folder.default_folder(config, run_folder.PROFILE)
    )
    machine.keep_compiled_programs()
    # Otherwise a program from the cache may bear the names of scopes of an earlier version.
    jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
    with refuse_lack_of_memory(f"--seeds, {sizes(config)}"):
        result = (profile_host if on_host else profile)(config, spec, folder)
    print(report(config, result))
    trace = next(folder.rglob("*.trace.json.gz"))
    print(f"\ntrace: {trace}")
    print(f"open it at ui.perfetto.dev, or the folder with xprof --logdir {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
