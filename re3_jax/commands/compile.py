"""`python -m re3_jax.commands.compile --target h100 ...`: a run on a device that is not here.

Compiles the programs of a run down to the machine code of a GPU or TPU, with the options of
`re3_jax.commands.train`, and prints what each takes: memory, copies, operations, bytes, and the
least time by the roofline. Without `--env` it does so for every agent at the paper's size. Nothing
runs: the numbers are estimates. `--out FILE` keeps them as JSON; runs that the file has of the same
code are not repeated.
"""

import contextlib
import difflib
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from re3_jax.accelerators import targets
from re3_jax.accelerators.cost import Report, report
from re3_jax.accelerators.targets import TARGETS, Target
from re3_jax.commands.profile import updates_per_step
from re3_jax.envs.base import EnvSpec
from re3_jax.plural import number_of
from re3_jax.runs import build, installing, run_folder
from re3_jax.runs.config import RunConfig, flatten
from re3_jax.runs.errors import Parser, UsageError, in_one_sentence, refusing
from re3_jax.runs.option_names import option_name
from re3_jax.runs.options import parse
from re3_jax.training.host_loop import HostProgram

PAPER_SIZE = (
    ("--env", "doorkey_6x6", "--agent", "a2c"),
    ("--env", "doorkey_6x6", "--agent", "ppo"),
    ("--env", "cheetah_run_sparse", "--agent", "rad"),
    ("--env", "cheetah_run_sparse", "--agent", "drq"),
    ("--env", "cheetah_run_sparse", "--agent", "dreamer"),
    ("--env", "montezuma_revenge", "--agent", "rainbow"),
    ("--env", "gymnax:Breakout-MinAtar", "--agent", "rainbow"),
    ("--env", "brax:halfcheetah", "--agent", "rad"),
)
"""The runs without `--env`: every agent, at the size of `--preset recommended`."""

SEEDS_AND_DEVICES = (1, 1), (4, 1), (4, 4)

PACKAGES = {"cuda": ("jax-cuda12-plugin", "nvidia-cudnn-cu12"), "tpu": ("libtpu",)}

NAMES = "env", "agent", "bonus", "preset", "seeds"

WITHOUT_EFFECT = "steps", "seed", "out", "plugin", "checkpoint_seconds", "loggers", "video"
"""Options that change no program."""

LATE = 10**8
"""Agent steps after which an agent learns as often as it ever does."""


def compile_run(config: RunConfig, spec: EnvSpec, target: Target, devices: int) -> dict[str, Any]:
    """What the programs of a prepared run take on each of so many devices; JSON's types.

    Raises:
      UsageError: the seeds cannot be divided among the devices.
    """
    per_seed = config.devices_per_seed
    if devices % per_seed or config.seeds % (shares := devices // per_seed):
        of_each = f", {per_seed} for each seed" if per_seed > 1 else ""
        raise UsageError(
            f"--seeds {config.seeds} cannot be divided among --devices {devices}{of_each}: "
            "choose others"
        )
    used = targets.devices(target)[:devices]
    seeds_each = config.seeds // shares
    programs: dict[str, Any] = {}
    with contextlib.closing(build.build(config, spec, print, used)) as runner:
        with build.refused_by_parts(config):
            traced = runner.lowered(config.seeds)
        for name, lowered in traced.items():
            try:
                programs[name] = _described(report(lowered.compile()), target)
            except jax.errors.JaxRuntimeError as error:
                programs[name] = {"refused": _first_sentence(error)}
        frames = seeds_each * config.frames_per_update(spec.action_repeat)
        if isinstance(runner, HostProgram):
            updates = updates_per_step(runner.learner, LATE)
        else:
            updates, frames = 0.0, seeds_each * runner.env_frames_per_chunk
    run = _named(config, devices) | {"programs": programs}
    if any("refused" in program for program in programs.values()):
        return run
    learn = [p["least_seconds"] for name, p in programs.items() if name.startswith("update")]
    rest = [p["least_seconds"] for name, p in programs.items() if not name.startswith("update")]
    seconds = sum(rest) + (updates * sum(learn) / len(learn) if learn else 0.0)
    largest = max(programs.values(), key=lambda p: p["argument_bytes"] + p["temporary_bytes"])
    needed = largest["argument_bytes"] + largest["temporary_bytes"]
    return run | {
        "updates_per_step": round(updates, 4),
        "needed_bytes": needed,
        "fits": needed <= target.memory_bytes,
        "most_env_frames_per_second": round(frames / seconds),
    }


def _named(config: RunConfig, devices: int) -> dict[str, Any]:
    """What tells a run from others in a file: names, numbers, and options unlike the preset's."""
    named = {name: getattr(config, name) for name in NAMES}
    words = [word for name in NAMES for word in (option_name(name), str(named[name]))]
    # Unchecked: the preset alone may lack what the given options mend, such as a file of weights.
    preset = parse(words, check=False)
    with contextlib.suppress(UsageError):
        preset, _ = build.planned(preset)
    of_preset = flatten(preset)
    options = {
        name: value
        for name, value in flatten(config).items()
        if value != of_preset[name] and name not in WITHOUT_EFFECT
    }
    return named | {"devices": devices} | ({"options": options} if options else {})


def _place(runs: list[dict[str, Any]], named: dict[str, Any]) -> int:
    """Where a file has this run, of whatever code; its length if nowhere."""
    of = [{name: run[name] for name in run if name in (*named, "options")} for run in runs]
    return of.index(named) if named in of else len(runs)


def _code() -> str:
    """A digest of the package's sources: other code may make other programs."""
    package = Path(__file__).parents[1]
    whole = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        whole.update(source.relative_to(package).as_posix().encode() + source.read_bytes())
    return whole.hexdigest()[:12]


def _described(result: Report, target: Target) -> dict[str, Any]:
    return {
        "argument_bytes": result.arguments,
        "temporary_bytes": result.temporaries,
        "largest_copy_bytes": result.largest_copy,
        "operations": result.cost.operations,
        "bytes_accessed": result.cost.bytes_accessed,
        "instructions": result.cost.instructions,
        "collectives": result.cost.collectives,
        "least_seconds": result.cost.seconds(target),
    }


def _first_sentence(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200]


def table(run: dict[str, Any], target: Target) -> str:
    """What is printed of a run."""
    columns = "memory", "temporary", "copy", "GFLOP", "moved", "kernels", "exchanges", "least ms"
    lines = [
        f"{run['env']}: {run['agent']} + {run['bonus']}, preset {run['preset']}, "
        f"{number_of(run['seeds'], 'seed')} on {run['devices']} {target.name}; each device:",
        f"{'program':<10}" + "".join(f"{name:>11}" for name in columns),
    ]
    for name, p in run["programs"].items():
        if "refused" in p:
            lines.append(f"{name:<10} refused: {p['refused']}")
            continue
        cells = [
            *(_size(p[f"{what}_bytes"]) for what in ("argument", "temporary", "largest_copy")),
            f"{p['operations'] / 1e9:,.1f}",
            _size(p["bytes_accessed"]),
            f"{p['instructions']:,.0f}",
            f"{p['collectives']:,.0f}",
            f"{1e3 * p['least_seconds']:,.3f}",
        ]
        lines.append(f"{name:<10}" + "".join(f"{cell:>11}" for cell in cells))
    if "fits" in run:
        verb = "fits in" if run["fits"] else "does not fit in"
        lines.append(
            f"{_size(run['needed_bytes'])} {verb} {_size(target.memory_bytes)}; at most "
            f"{run['most_env_frames_per_second']:,} env frames/s on the device, an estimate"
        )
    return "\n".join(lines)


def _size(number: float) -> str:
    return f"{number / 1e9:,.2f} GB" if number >= 1e8 else f"{number / 1e6:,.2f} MB"


def find_target(name: str | None) -> Target:
    """The target of a name; a UsageError lists the known ones."""
    if name in TARGETS:
        return TARGETS[name]
    near = difflib.get_close_matches(name or "", TARGETS, n=1)
    said = f"--target {name} is not known" if name else "no target was given"
    hint = f"did you mean {near[0]}? Known:" if near else "choose from"
    raise UsageError(f"{said}: {hint} {', '.join(TARGETS)}")


def _check_compiler(target: Target) -> None:
    """Refuses a target of which the compiler is not here."""
    if (missing := targets.missing_compiler(target)) is not None:
        lock = f"requirements-compile-{target.platform}.txt"
        build = f"use make compile TARGET={target.name}, which builds .venv-compile, or "
        raise UsageError(
            f"{missing} is not installed: "
            f"{build * installing.in_checkout()}{installing.remedy(lock)}"
        )


def _asked(words: list[str], devices: int | None) -> Iterator[tuple[list[str], int]]:
    """The options of each run, and its devices."""
    preset = (
        [] if any(word.startswith("--preset") for word in words) else ["--preset", "recommended"]
    )
    given = {word.partition("=")[0] for word in words}
    if "--env" in given:
        yield [*words, *preset], devices or 1
        return
    if devices or given & {"--agent", "--seeds"}:
        raise UsageError(
            "without --env every agent is compiled, with 1 and 4 seeds on 1 and 4 devices: leave "
            "--agent, --seeds and --devices out, or add --env"
        )
    for seeds, used in SEEDS_AND_DEVICES:
        for run in PAPER_SIZE:
            yield [*run, *words, *preset, "--seeds", str(seeds)], used


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (0 or 2)."""
    parser = Parser("python -m re3_jax.commands.compile", allow_abbrev=False)
    parser.add_argument("--target")
    parser.add_argument("--devices", type=int, choices=(1, 2, 4))
    parser.add_argument("--out", type=Path)
    own, words = parser.parse_known_args(argv)
    target = find_target(own.target)
    _check_compiler(target)
    # A plugin without its device would be tried, and complain.
    jax.config.update("jax_platforms", "cpu")
    runs, code = _kept(own.out, target), _code()
    if own.out is not None:
        # Before minutes are spent on a program.
        with refusing(OSError):
            own.out.parent.mkdir(parents=True, exist_ok=True)
    for options, devices in _asked(words, own.devices):
        # The renderer does not matter to a program; the one of this machine may not exist.
        config, spec = build.planned(parse(options))
        place = _place(runs, _named(config, devices))
        if any(run.get("code") == code for run in runs[place : place + 1]):
            print(f"{own.out} has {config.title()} on {number_of(devices, 'device')} already")
            continue
        with refusing(RuntimeError, ImportError):
            targets.devices(target)
        run = compile_run(config, spec, target, devices) | {"code": code}
        runs[place : place + 1] = [run]
        print(table(run, target), end="\n\n", flush=True)
        if own.out is not None:
            _write(own.out, target, runs)
    return 0


def _heading(target: Target) -> dict[str, Any]:
    versions = {name: installing.version(name) for name in ("jax", *PACKAGES[target.platform])}
    return {"target": target._asdict(), "versions": versions}


def _kept(path: Path | None, target: Target) -> list[dict[str, Any]]:
    """The runs of a file that was written for this target by these compilers."""
    if path is None or not path.exists():
        return []
    with refusing(ValueError, OSError):
        whole = json.loads(path.read_text())
    if not isinstance(whole, dict) or not whole.items() >= _heading(target).items():
        raise UsageError(f"{path} is not of {target.name} and these compilers: name another file")
    runs = whole.get("runs")
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise UsageError(f"{path} holds no list of runs: name another file")
    return runs


def _write(path: Path, target: Target, runs: list[dict[str, Any]]) -> None:
    with refusing(OSError):
        run_folder.write_json(path, _heading(target) | {"runs": runs})


if __name__ == "__main__":
    sys.exit(main())
