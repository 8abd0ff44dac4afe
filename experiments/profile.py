"""`python -m experiments.profile --env TASK ...`: where the time of a run goes.

Traces one chunk of the program that `experiments.train` runs, with the same options, once the
ring of latents is full or half a minute has passed; but on one device where a run on CPU
spreads its seeds over the cores, so that the shares add up. The trace opens in Perfetto and in
XProf. Environments on the host: see `profile_host`.
"""

import dataclasses
import logging
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from experiments import bonuses, machine, profile_host
from experiments.attribution import OTHER, milliseconds_by_scope
from experiments.build import (
    cpu_devices,
    device_program,
    devices_for,
    make_environment,
    seed_numbers,
    settle_renderer,
    task_spec,
)
from experiments.config import RunConfig, flatten, frames_per_update
from experiments.errors import UsageError, refuse_lack_of_memory
from experiments.options import parse
from experiments.validate import validate_for_task
from re3_jax.envs import registry
from re3_jax.envs.base import DeviceEnv

PARTS = {
    "env": "environment",
    "act": "act",
    "encode": "encode",
    "knn": "k-NN",
    "bonus": "bonus, the rest",
    "update": "update",
    OTHER: "other",
}
"""Named scope of the device loop -> what the table calls it."""

TRACED_UPDATES = 25
"""Updates per chunk here: traces grow by about 0.3 MB per update and seed."""

REPEATS = 5

FILL_SECONDS = 30.0
"""A replay of 100,000 states is not waited for longer than this."""


class Profile(NamedTuple):
    """What was measured, per update of all seeds.

    Attributes:
      milliseconds: wall time without the profiler, the best of several chunks.
      traced_milliseconds: wall time under the profiler, which slows small instructions most.
      parts: scope -> time in its instructions, under the profiler.
      env_frames: of all seeds.
    """

    milliseconds: float
    traced_milliseconds: float
    parts: dict[str, float]
    env_frames: int


def profile(config: RunConfig, env: DeviceEnv, folder: Path) -> Profile:
    """Runs, times and traces the program of `config`; the trace goes into `folder`.

    Raises:
      UsageError: the configuration cannot be run.
    """
    config = dataclasses.replace(config, chunk_updates=TRACED_UPDATES)
    program = device_program(config, env)
    state = program.init(jnp.asarray(seed_numbers(config), jnp.int32))
    train = program.train.lower(state).compile()

    def chunk() -> float:
        nonlocal state
        start = time.perf_counter()
        state, _ = train(state)
        jax.block_until_ready(state)
        return time.perf_counter() - start

    frames = frames_per_update(config, env.spec.action_repeat)
    has_ring = bonuses.keeps_latents(flatten(config))
    ring_rows = config.re3.ring_size if has_ring else 0
    filled, started = 0, time.perf_counter()
    while filled <= ring_rows and time.perf_counter() - started < FILL_SECONDS:
        chunk()
        filled += frames * TRACED_UPDATES // env.spec.action_repeat
    seconds = min(chunk() for _ in range(REPEATS))

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 1
    with jax.profiler.trace(str(folder), profiler_options=options):
        traced_seconds = chunk()
    hlo_text = train.as_text() or ""
    parts = milliseconds_by_scope(folder, hlo_text, [p for p in PARTS if p != OTHER])
    devices = len(devices_for(config.seeds))
    return Profile(
        milliseconds=1e3 * seconds / TRACED_UPDATES,
        traced_milliseconds=1e3 * traced_seconds / TRACED_UPDATES,
        parts={scope: parts[scope] / TRACED_UPDATES / devices for scope in PARTS},
        env_frames=frames * config.seeds,
    )


def report(config: RunConfig, result: Profile) -> str:
    """The table that is printed."""
    in_instructions = sum(result.parts.values())
    between = max(0.0, result.traced_milliseconds - in_instructions)
    rows = {PARTS[scope]: value for scope, value in result.parts.items()}
    rows["between instructions"] = between
    devices = devices_for(config.seeds)
    lines = [
        f"{config.env}: {config.agent} + {config.bonus}, preset {config.preset}, {config.seeds} "
        f"seed(s), {result.env_frames} env frames per update, on {len(devices)} "
        f"{devices[0].device_kind} device(s)",
        f"{result.milliseconds:.3f} ms per update = "
        f"{1e3 * result.env_frames / result.milliseconds:,.0f} env frames/s in all; "
        f"{result.traced_milliseconds:.3f} ms under the profiler, where",
        "",
        f"{'part':<22}{'ms per update':>14}{'share':>8}",
    ]
    for part, milliseconds in rows.items():
        share = milliseconds / (in_instructions + between)
        lines.append(f"{part:<22}{milliseconds:>14.3f}{share:>8.1%}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (0 or 2)."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    try:
        config = parse(list(sys.argv[1:] if argv is None else argv))
        if config.init is not None:
            raise UsageError("--init has no effect on how long an update takes: leave it out")
        spec = task_spec(config)
        validate_for_task(config, spec)
        folder = _trace_folder(config)
        machine.keep_compiled_programs()
        with refuse_lack_of_memory():
            if registry.is_host(config.env):
                machine.use_cpu_devices(cpu_devices(config))
                config = settle_renderer(config)
                result = profile_host.profile_host(config, spec, folder)
                print(profile_host.report(config, result))
            else:
                env = make_environment(config.env)
                print(report(config, profile(config, env, folder)))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    trace = next(folder.rglob("*.trace.json.gz"))
    print(f"\ntrace: {trace}")
    print(f"open it at ui.perfetto.dev, or the folder with xprof --logdir {folder}")
    return 0


def _trace_folder(config: RunConfig) -> Path:
    task = re.sub(r"[^\w.-]+", "_", config.env)
    folder = Path(config.out or f"runs/profile-{task}-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name another folder with --out")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written ({error.strerror}): name another folder with --out"
        ) from None
    return folder


if __name__ == "__main__":
    sys.exit(main())
