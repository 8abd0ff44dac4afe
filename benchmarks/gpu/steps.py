"""The steps, in order of value: what each runs, for how long at most, and its line in the table.

A limit is what a step may take of the half hour, not what it was measured to take. On a CPU all
have the same, because how long they take there is of no interest.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from re3_jax.knn import kernel
from re3_jax.plural import number_of

DEBUG_SECONDS = 600.0

Found = dict[str, Any]
"""What a step printed: the values of its JSON, or its `lines`."""

PIXELS = ("--env", "cheetah_run_sparse", "--agent", "rad", "--bonus", "re3")
MINIGRID = ("--env", "doorkey_6x6", "--agent", "a2c", "--bonus", "re3")
TRAINING = "train_rad"

SMALL = ("--env", "pendulum_swingup", "--agent", "rad", "--seed", "7")
"""A row of the pixel figure that shows a difference early, on seeds that nothing was chosen with.

On a CPU, seed 1 chose the sizes and 2 to 6 made the figure: RE3 swings up between 50,000 and
125,000 env frames, RAD alone in three of five seeds, from 200,000 on.
"""


HALF = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"}
"""The other half of the device's memory is PyTorch's."""


class Step(NamedTuple):
    """A program to run.

    Attributes:
      name: of its JSON file.
      words: the module and its options, after `python -m`.
      seconds: after which it is stopped.
      shown: what it found -> its cell in the table.
      goes_on: whether SIGTERM makes it stop with a checkpoint, so that a later call goes on.
      environment: variables that it needs.
    """

    name: str
    words: tuple[str, ...]
    seconds: float
    shown: Callable[[Found], str]
    goes_on: bool = False
    environment: Mapping[str, str] = MappingProxyType({})


def steps(folder: Path, debug: bool, with_torch: bool = False) -> list[Step]:
    """All steps; their runs are below `folder`.

    Args:
      folder: that of the results.
      debug: at the size for a CPU, where a step takes seconds to a few minutes.
      with_torch: whether PyTorch can be measured beside, on the same device.
    """
    runs = folder / "runs"
    few: tuple[str, ...] = ("--rounds", "1") if debug else ()
    rows = ("--rows", "4000") if debug else ()
    frames = ("--transitions", "1000") if debug else ()
    size = "debug" if debug else "recommended"
    a2c = (
        ("--seeds", "1", "2", "--turns", "1", "--preset", size) if debug else ("--seeds", "1", "5")
    )
    contenders = ("re3_jax+re3",) if debug else ("re3_jax", "re3_jax+re3", "re3_jax+re3 bfloat16")
    theirs = ("torch", "torch+re3") if with_torch and not debug else ()
    alone = () if with_torch else ("--skip-torch",)
    # The debug preset's renderer needs a package that a lent machine may lack.
    pixels = (*PIXELS, "--preset", size, "--dmc.renderer", "auto")
    one_seed, five_seeds = (*pixels, "--seeds", "1"), (*pixels, "--seeds", "2" if debug else "5")
    small = (*SMALL, "--preset", "debug" if debug else "small", "--dmc.renderer", "auto",
             "--seeds", "2" if debug else "5", *_training(debug))  # fmt: skip
    train, again = "benchmarks.gpu.training", "benchmarks.gpu.resume"
    updates = "benchmarks.dreamer_update", "--updates", "1" if debug else "20"
    knn = "benchmarks.knn", *(() if with_torch else ("--jax-only",)), *rows, *few
    pair = Step("beside_torch", ("benchmarks.beside_torch", "--folder", str(runs / "beside_torch"),
        *(("--preset", "debug", "--updates", "40") if debug else ("--save-every", "500"))), 170,
        _pair, environment=HALF)  # fmt: skip
    made = [
        Step("doctor", ("re3_jax.commands.doctor",), 80, _doctor),
        Step("update_rad", ("benchmarks.sac_update", *alone, *frames, *few,
            "--preset", "debug" if debug else "released"), 110, _sac, environment=HALF),
        Step("knn", knn, 70, _knn, environment=HALF),
        Step("knn_without_kernel", ("benchmarks.knn", "--jax-only", *rows, *few), 60, _knn,
             environment={kernel.SWITCH: "0"}),
        Step("update_rainbow", ("benchmarks.rainbow_update", *alone, *frames, *few), 90, _rainbow,
             environment=HALF),
        Step("update_dreamer", (*updates, "--contenders", *contenders, *theirs), 120, _dreamer),
        *(
            Step(f"small_{bonus}", (train, *small, "--bonus", bonus,
                "--out", str(runs / f"small_{bonus}")), 100, _training_shown, goes_on=True)
            for bonus in ("re3", "none")
        ),
        Step(TRAINING, (train, *one_seed, *_training(debug), "--out", str(runs / TRAINING)), 110,
             _training_shown, goes_on=True),
        *([pair] if with_torch else []),
        Step("seeds_a2c", ("benchmarks.a2c", "--rows", "merged", *a2c), 80, _a2c),
        Step("resume_a2c", (again, *MINIGRID, "--preset", size, *_killed_a2c(debug),
            "--out", str(runs / "a2c")), 100, _resume),
        Step("resume_rad", (again, *one_seed, *_killed_rad(debug), "--out", str(runs / "rad")), 90,
             _resume),
        Step("resume_rad_deterministic", (again, *one_seed, *_killed_rad(debug), "--deterministic",
            "--out", str(runs / "rad_deterministic")), 90, _resume),
        Step("pixels_1_seed", ("benchmarks.gpu.pixels", *one_seed), 60, _pixels),
        Step("pixels_5_seeds", ("benchmarks.gpu.pixels", *five_seeds), 60, _pixels),
    ]  # fmt: skip
    return [step._replace(seconds=DEBUG_SECONDS) for step in made] if debug else made


def _training(debug: bool) -> tuple[str, ...]:
    # Short evaluations, because a run that is stopped first waits for the one that it began.
    if debug:
        return "--steps", "2000", "--no-video", "--evaluation.episodes", "1"
    return "--no-video", "--evaluation.episodes", "2", "--checkpoint-seconds", "60"


def _killed_a2c(debug: bool) -> tuple[str, ...]:
    lengths = ("--steps", "12800", "--evaluation.every-env-frames", "1280")
    if not debug:
        lengths = ("--steps", "128000", "--evaluation.every-env-frames", "12800")
    return *lengths, "--evaluation.episodes", "10", "--checkpoint-seconds", "0", "--seeds", "2"


def _killed_rad(debug: bool) -> tuple[str, ...]:
    if debug:
        lengths: tuple[str, ...] = ("--steps", "4000", "--evaluation.every-env-frames", "1000")
    else:
        lengths = ("--steps", "2000", "--evaluation.every-env-frames", "500")
        lengths = (*lengths, "--chunk-updates", "50", "--sac.initial-agent-steps", "250")
    few = ("--evaluation.episodes", "1", "--no-video", "--checkpoint-seconds", "0")
    return *lengths, *few


def _doctor(found: Found) -> str:
    kept = ("devices", "OpenGL", "k-NN", "speed")
    return "; ".join(" ".join(line.split()) for line in found["lines"] if line.startswith(kept))


def _knn(found: Found) -> str:
    cases = found["cases"].items()
    times = ((name, case, case["methods"]["re3_jax"]) for name, case in cases)
    return "; ".join(
        f"{name} ({case['queries']} x {case['rows']:,} x {case['dimension']}) {ours['ms']} ms, "
        f"{ours['ratio_to_floor']} of its product"
        + "".join(f", {other} {row['ms']} ms" for other, row in _others(case["methods"]))
        for name, case, ours in times
    )


def _sac(found: Found) -> str:
    ((_, size),) = found["sizes"].items()
    ours, without = size["ms"]["re3_jax"], size["ms"]["re3_jax_without_re3"]
    others = [row for row in size["ms"].items() if "tf32" in row[0]]
    others += _of_torch(size["ms"])
    beside = "".join(f", {name} {row['mean']} ms" for name, row in dict(others).items())
    words = f"batch {size['batch']}: {ours['mean']} ms, {without['mean']} without RE3{beside}"
    return words + _memory(found)


def _rainbow(found: Found) -> str:
    rows = found["of_one_update"]
    ours = [(name, row) for name, row in rows.items() if "re3_jax" in name]
    shown = (f"{name}: {row['ms']} ms" for name, row in (*ours, *_of_torch(rows)))
    return "; ".join(shown) + _memory(found)


def _others(methods: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, row) for name, row in methods.items() if name != "re3_jax"]


def _of_torch(rows: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, row) for name, row in rows.items() if name.startswith("torch")]


def _dreamer(found: Found) -> str:
    return "; ".join(
        f"{name}: {1e3 * row['seconds']:.1f} ms{_memory(row)}"
        for name, row in found["of_one_update"].items()
    )


def _training_shown(found: Found) -> str:
    if "env_frames" not in found:
        return "not evaluated yet, goes on when called again"
    end = "" if found["complete"] else ", goes on when called again"
    return (
        f"return {found['final_return_mean']:.1f} at env frame {found['env_frames']:,}, "
        f"{found['frames_per_second'] or 0:,.0f} env frames/s{_memory(found)}{end}"
    )


def _pair(found: Found) -> str:
    apart = [
        f"{name} from {row['first_update_apart_by_a_hundredth']:,}"
        for name, row in found["sides"].items()
        if row["first_update_apart_by_a_hundredth"] is not None
    ]
    return f"{found['updates']:,} updates; apart by a hundredth: {', '.join(apart) or 'nothing'}"


def _a2c(found: Found) -> str:
    return "; ".join(
        f"{number_of(row['seeds'], 'seed')}: {row['env_frames_per_second']:,} env frames/s"
        for row in found["throughput"]
    )


def _resume(found: Found) -> str:
    killed = f"killed at env frame {found['killed_at_env_frames']:,}: "
    if not found["differing_bytes"] and not found["differing_rows"]:
        return killed + "the same, bit for bit"
    where = found["differs_from_env_frames"]
    since = "" if where is None else f", digests from env frame {where:,}"
    return (
        f"{killed}{found['differing_bytes']:,} bytes and {found['differing_rows']} rows "
        f"differ{since}"
    )


def _pixels(found: Found) -> str:
    parts = ", ".join(f"{name} {ms} ms" for name, ms in found["ms_of_parts"].items())
    return (
        f"{found['env_frames_per_second']:,} env frames/s over "
        f"{number_of(found['seeds'], 'seed')}, {found['ms']} ms a step ({parts}){_memory(found)}"
    )


def _memory(found: Found) -> str:
    peak = found["peak_device_bytes"]
    return "" if peak is None else f", {peak / 1e9:.2f} GB"
