"""`python -m re3_jax.commands.doctor`: can this machine run re3_jax, and how fast?

Prints what it finds, line by line. Exits 0 if a run can start, otherwise 2 with one sentence that
names the remedy. Packages are imported where they are needed, so that a missing one is reported
instead of ending in a traceback.
"""

import dataclasses
import json
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from re3_jax.runs import installing
from re3_jax.runs.errors import Parser, UsageError, in_one_sentence

RESULTS = installing.ROOT / "benchmarks" / "results"
SPEED_TASK = "doorkey_8x8"
SPEED_CHUNK_UPDATES = 100
SPEED_SECONDS = 5.0
LARGEST_ERROR = 1e-4
"""Largest error of a distance to a neighbour, relative to float64; float32 leaves about 1e-6."""

FEWEST_BYTES = 2**30
"""Free memory below which no run is likely to finish compiling."""

PARTS = {
    "Atari": (
        "import envpool; envpool.make_gymnasium('Pong-v5', num_envs=1)",
        installing.ATARI,
        "envpool",
    ),
    "DMC": (
        "from dm_control import suite; suite.load('cartpole', 'balance')",
        installing.BASE,
        "dmc",
    ),
    "warp": ("import mujoco.mjx.third_party.mujoco_warp", installing.BASE, "dmc"),
    "brax": ("from brax import envs", installing.BASE, "brax"),
    "video": ("import imageio_ffmpeg; imageio_ffmpeg.get_ffmpeg_exe()", installing.BASE, "video"),
}
"""Packages that only some tasks need: a minimal program that uses each, its lock, its extra."""


def check_versions() -> list[str]:
    """Lines on Python and packages; a UsageError if one that a run needs is missing."""
    tested, needed = pins(), installing.required()
    found = {name: version for name in tested or needed if (version := installing.version(name))}
    if missing := [name for name in needed if name not in found]:
        build = "use make doctor, which builds .venv, or " if installing.in_checkout() else ""
        raise UsageError(
            f"{', '.join(missing)} not installed: {build}{installing.remedy(extras='run')}"
        )
    shown = [f"{name} {found[name]}" for name in installing.PACKAGES if name in found]
    versions = [
        f"python    {platform.python_version()} on {platform.platform()}",
        f"packages  {', '.join(shown)}",
    ]
    if not tested:
        return [*versions, "pins      the tested versions are those of the repository's locks"]
    differing = [
        f"{name} {version} (tested: {tested[name]})"
        for name, version in found.items()
        if version.partition("+")[0] != tested[name]
    ]
    warnings = []
    if differing:
        warnings.append(f"warning   not the tested versions: {', '.join(differing)}")
    if absent := [name for name in tested if name not in found]:
        warnings.append(f"warning   not installed, which some tasks need: {', '.join(absent)}")
    if not warnings:
        warnings = [f"pins      all {len(found)} packages are the tested versions"]
    return [*versions, *warnings, *mujoco_warning()]


def pins() -> dict[str, str]:
    """Package -> version, from requirements.txt; none where there is no checkout."""
    if not installing.in_checkout():
        return {}
    text = (installing.ROOT / installing.BASE).read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE))


def mujoco_warning() -> list[str]:
    """A line if dm_control cannot work with the MuJoCo beside it."""
    mujoco, dm_control = installing.version("mujoco"), installing.version("dm_control")
    if not (mujoco and dm_control) or int(mujoco.partition(".")[0]) < 4:
        return []
    return [
        f"warning   mujoco {mujoco} breaks dm_control's suite, which tasks seen as pixels need: "
        f"{installing.remedy()}"
    ]


def check_machine() -> list[str]:
    """Lines on cores, memory, disk, devices; a UsageError if memory is short or JAX fails."""
    import psutil

    from re3_jax.runs import machine

    memory, disk = psutil.virtual_memory(), shutil.disk_usage(installing.ROOT)
    if memory.available < FEWEST_BYTES:
        raise UsageError(
            f"only {_gib(memory.available)} of memory are free: close other programs until "
            f"{_gib(FEWEST_BYTES)} are"
        )
    return [
        f"host      {machine.usable_cores()} cores, {_gib(memory.available)} of "
        f"{_gib(memory.total)} memory free, {_gib(disk.free)} of disk free",
        *_devices(),
    ]


def _devices() -> list[str]:
    from re3_jax.runs import machine

    with machine.refusing_backends():
        import jax
        import jax.numpy as jnp

        devices = jax.devices()
        product = float(jnp.dot(jnp.full(8, 2.0), jnp.full(8, 0.5)))
    if product != 8.0:
        raise UsageError(
            f"JAX on {devices[0].device_kind} computes wrongly: set JAX_PLATFORMS=cpu, or install "
            "a jaxlib and a driver that fit each other"
        )
    limit = (devices[0].memory_stats() or {}).get("bytes_limit")
    memory = f", {_gib(limit)} each" if limit else ", host memory"
    return [f"devices   {len(devices)} x {devices[0].device_kind} ({devices[0].platform}){memory}"]


def check_pixels() -> list[str]:
    """Lines on OpenGL and on packages that only some tasks need.

    Each is tried in its own process, because a missing driver may crash it.
    """
    from re3_jax.envs.host import gl

    driver = gl.probe()
    if driver is None:
        drawn = f"no driver works: {gl.APT_LINE}"
    else:
        drawn = f"{driver.backend} with {driver.name} ({'GPU' if driver.on_gpu else 'CPU'})"
    return [f"OpenGL    {drawn}", *(f"{name:<10}{_try(*part)}" for name, part in PARTS.items())]


def _try(program: str, lock: str, extra: str) -> str:
    command = [sys.executable, "-c", program]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "hangs"
    if tried.returncode == 0:
        return "works"
    said = tried.stderr.strip().splitlines() or [f"ended with code {tried.returncode}"]
    remedy, is_missing = installing.remedy(lock, extra), "No module named" in said[-1]
    if is_missing and not installing.in_checkout():
        return f"not installed: {remedy}"
    if is_missing and lock == installing.ATARI:
        return f"not installed: make run installs it when a game is first named, or {remedy}"
    return f"does not work ({said[-1]}): reinstall it with {remedy}"


def check_neighbours() -> list[str]:
    """A line on the k-NN of the default device; a UsageError if its distances are wrong."""
    import jax
    import numpy as np

    from re3_jax import compilation
    from re3_jax.knn import nearest_distances
    from re3_jax.replay import latent_ring

    rows = np.random.default_rng(0).standard_normal((4_000, 50), np.float32)
    queries = rows[:500] + np.float32(0.1)
    ring, _ = latent_ring.add(latent_ring.init(*rows.shape), jax.numpy.asarray(rows))
    found = compilation.jit(lambda x: nearest_distances(x, ring, k=3))(queries)
    exact = np.array(
        [np.sort(np.linalg.norm(rows - query, axis=1))[:3] for query in queries.astype(np.float64)]
    )
    error = float(np.max(np.abs(np.asarray(found) / exact - 1)))
    kind = jax.devices()[0].device_kind
    if not error < LARGEST_ERROR:
        raise UsageError(
            f"the k-NN on {kind} is wrong by {error:.0e}: set RE3_JAX_FUSED_KNN=0 on a GPU, or "
            "JAX_PLATFORMS=cpu"
        )
    return [f"k-NN      distances within {error:.0e} of float64 on {kind}"]


def check_speed() -> list[str]:
    """Lines on the speed of A2C + RE3 on DoorKey-8x8, one seed, ring full, compile excluded."""
    import jax
    import jax.numpy as jnp

    from re3_jax.runs import machine
    from re3_jax.runs.build import device_program, make_environment
    from re3_jax.runs.resolve import resolve

    machine.keep_compiled_programs()
    config = dataclasses.replace(resolve(SPEED_TASK), seeds=1, chunk_updates=SPEED_CHUNK_UPDATES)
    program = device_program(config, make_environment(config.env))
    state = program.init(jnp.ones(1, jnp.int32))
    start = time.perf_counter()
    state, _ = jax.block_until_ready(program.train(state))
    first_chunk_seconds = time.perf_counter() - start
    frames = program.env_frames_per_chunk
    for _ in range(config.re3.ring_size // frames):
        state, _ = jax.block_until_ready(program.train(state))
    chunks, start = 0, time.perf_counter()
    while time.perf_counter() - start < SPEED_SECONDS:
        state, _ = jax.block_until_ready(program.train(state))
        chunks += 1
    measured = chunks * frames / (time.perf_counter() - start)
    return [
        f"speed     {measured:,.0f} env frames/s: {SPEED_TASK}, {config.agent} + {config.bonus}, "
        f"one seed (first chunk, compile included: {first_chunk_seconds:.1f} s)",
        *_compared(measured, config.agent, config.bonus, config.re3.merge_copies),
    ]


def check_kept_programs() -> list[str]:
    """A line on the folder of compiled programs, from which nothing is ever deleted."""
    from re3_jax.runs import machine

    if (kept := machine.kept_programs()) is None:
        return ["programs  none is kept: every process compiles its own"]
    folder, num_bytes = kept
    return [f"programs  {_gib(num_bytes)}, compiled, in {folder}, which you may delete"]


def _compared(measured: float, agent: str, bonus: str, merge_copies: bool) -> Iterator[str]:
    """Lines that compare frames per second with each committed benchmark of the same program."""
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text())
        if (result.get("agent"), result.get("task")) != (agent, SPEED_TASK):
            continue
        hardware = result["hardware"]
        kinds = ", ".join(f"{count} x {kind}" for kind, count in hardware["devices"].items())
        where = f"{kinds} ({hardware['cpu']}, {hardware['cores']} cores)"
        for row in result["throughput"]:
            if (row["bonus"], row["merge_copies"], row["seeds"]) == (bonus, merge_copies, 1):
                there = row["env_frames_per_second"]
                yield f"          {measured / there:.2f} of the {there:,.0f} measured on {where}"


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Prints the report; returns the exit code (0 or 2)."""
    name = "python -m re3_jax.commands.doctor"
    Parser(name, description=__doc__).parse_args(argv)
    checks = (
        check_versions,
        check_machine,
        check_pixels,
        check_neighbours,
        check_speed,
        check_kept_programs,
    )
    for check in checks:
        for line in check():
            print(line, flush=True)
    print(
        "ready     make run ENV=doorkey_6x6, or make run ENV=cartpole_swingup PRESET=small"
        if installing.in_checkout()
        else "ready     re3-jax train --env doorkey_6x6"
    )
    return 0


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"


if __name__ == "__main__":
    sys.exit(main())
