"""summary.json and curve.png: a run's results, from its eval.csv."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from re3_jax.runs import machine, suites
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.config import RunConfig
from re3_jax.runs.run_folder import write_json


def draw_curve(folder: Path, config: RunConfig) -> None:
    """Redraws curve.png."""
    # Matplotlib and SciPy take a second to import: not before training begins.
    from re3_jax.runs import curves

    bonus = f" + {config.bonus.upper()}" if BONUSES[config.bonus].rewards else ""
    label = f"{config.agent.upper()}{bonus}"
    title = f"{config.env}, {label} ({config.preset})"
    curves.draw([curves.load(label, [folder])], title, folder / "curve.png")


def write_summary(
    folder: Path, config: RunConfig, complete: bool, timing: Mapping[str, Any]
) -> dict[str, Any]:
    """Writes summary.json and returns its contents.

    The folder has at least one evaluation; `timing` has seconds and frames per second, as measured
    by the loop.
    """
    from re3_jax.runs import curves
    from re3_jax.runs.statistics import final_returns

    curve = curves.load("", [folder])
    final, seeds = curve.returns[:, -1], config.seed_numbers
    reached = final_returns(final)
    suite, task_id = suites.find(config.env)
    values = {
        **{name: getattr(config, name) for name in ("env", "agent", "bonus", "preset")},
        "renderer": suites.drawn_by(config),
        "complete": complete,
        "env_frames": int(curve.env_frames[-1]),
        "final_return": {str(s): float(r) for s, r in zip(seeds, final, strict=True)},
        **reached,
        **suite.summary(task_id, reached["final_return_mean"]),
        **timing,
        "peak_host_bytes": machine.peak_host_bytes(),
        "peak_device_bytes": machine.peak_device_bytes(),
        "device": machine.device(),
    }
    write_json(folder / "summary.json", values)
    return values


def lines(folder: Path, reached: Mapping[str, Any]) -> list[str]:
    """The lines of a summary for the terminal, with the paths of its files."""
    low, high = reached["final_return_iqm_ci95"]
    speed = reached["frames_per_second"]
    return [
        f"return {reached['final_return_mean']:.3f} (IQM {reached['final_return_iqm']:.3f}, "
        f"95% interval {low:.3f} to {high:.3f}) over {len(reached['final_return'])} seed(s) at env "
        f"frame {reached['env_frames']:,}" + (f", {speed:,.0f} frames/s" if speed else ""),
        f"curve       {folder / 'curve.png'}",
        f"summary     {folder / 'summary.json'}",
    ]
