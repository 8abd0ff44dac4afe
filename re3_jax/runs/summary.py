"""summary.json and curve.png: a run's results, from its evaluations."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from re3_jax.plural import number_of, plural
from re3_jax.runs import labels, machine, suites
from re3_jax.runs.config import RunConfig
from re3_jax.runs.host_record import HostRecord
from re3_jax.runs.run_folder import without_nan, write_json

if TYPE_CHECKING:
    # Matplotlib and SciPy take a second to import: not before training begins.
    from re3_jax.runs.curves import Curve


FEWEST_FOR_AN_INTERVAL = 4
"""A bootstrap of fewer seeds finds little but their range, which is told instead."""


def picture(curve: "Curve", config: RunConfig) -> Any:
    """The figure of curve.png."""
    from re3_jax.runs import curves

    return curves.picture([curve], f"{config.env}, {curve.label} ({config.preset})")


def draw_curve(folder: Path, config: RunConfig) -> None:
    """Redraws curve.png."""
    from re3_jax.runs import curves

    curve = curves.load(labels.of(config.agent, config.bonus), [folder])
    curves.save(picture(curve, config), folder / "curve.png")


def values(curve: "Curve", config: RunConfig, complete: bool, record: HostRecord) -> dict[str, Any]:
    """The contents of summary.json; the curve has at least one evaluation."""
    from re3_jax.runs.statistics import final_returns

    final, seeds = curve.returns[:, -1], config.seed_numbers
    reached = final_returns(final)
    suite, task_id = suites.find(config.env)
    return {
        **{name: getattr(config, name) for name in ("env", "agent", "bonus", "preset")},
        "renderer": suites.drawn_by(config),
        "complete": complete,
        "env_frames": int(curve.env_frames[-1]),
        "final_return": {str(s): float(r) for s, r in zip(seeds, final, strict=True)},
        **reached,
        **suite.summary(task_id, reached["final_return_mean"]),
        "not_finite_seeds": record.not_finite,
        **record.timing(config.seeds),
        "peak_host_bytes": machine.peak_host_bytes(),
        "peak_device_bytes": machine.peak_device_bytes(),
        "device": machine.device(),
    }


def write(folder: Path, config: RunConfig, complete: bool, record: HostRecord) -> Iterator[str]:
    """Writes both files if the run was evaluated; what the terminal says of them."""
    if record.evaluated_at < 0:
        return
    from re3_jax.runs import curves

    curve = curves.load("", [folder])
    reached = values(curve, config, complete, record)
    write_json(folder / "summary.json", without_nan(reached))
    draw_curve(folder, config)
    yield headline(reached)
    yield f"curve       {folder / 'curve.png'}"
    yield f"summary     {folder / 'summary.json'}"


def read(folder: Path, name: str = "summary.json") -> dict[str, Any]:
    """summary.json of a run, or another such file; empty without it, or if it is no table."""
    try:
        found = json.loads((folder / name).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_complete(reached: Mapping[str, Any], steps: int) -> bool:
    """Whether a run of so many env frames ended: an extended one keeps its summary until then."""
    frames = reached.get("env_frames")
    return reached.get("complete") is True and isinstance(frames, int) and frames >= steps


def headline(reached: Mapping[str, Any]) -> str:
    """The line of a summary for the terminal."""
    low, high = reached["final_return_iqm_ci95"]
    seeds = len(reached["final_return"])
    interval = f" (IQM {reached['final_return_iqm']:.3f}, 95% interval {low:.3f} to {high:.3f})"
    if seeds < FEWEST_FOR_AN_INTERVAL:
        returns = reached["final_return"].values()
        interval = f" ({min(returns):.3f} to {max(returns):.3f})"
    speed, broken = reached["frames_per_second"], reached["not_finite_seeds"]
    names = f"{plural(len(broken), 'seed')} {' '.join(map(str, broken))}"
    return (
        f"return {reached['final_return_mean']:.3f}{interval if seeds > 1 else ''} over "
        f"{number_of(seeds, 'seed')} at env frame {reached['env_frames']:,}"
        + (f", {speed:,.0f} frames/s" if speed else "")
        + (f"; {names} became NaN or infinite" if broken else "")
    )
