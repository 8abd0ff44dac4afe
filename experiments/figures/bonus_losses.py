"""Whether each learned bonus learns from pixels: its losses over a run of RAD.

    make figure FIG=bonus_losses
    python -m experiments.figures.bonus_losses [--task TASK] [--preset small] [--seeds N]

Runs RAD with each bonus that learns, unless that run exists, and writes a picture with one panel
per loss and losses.csv with all values. The bonus learns from the frames that the agent stored, in
the batches of the agent's updates.
"""

from pathlib import Path
from typing import get_args

import numpy as np
from matplotlib.figure import Figure

from experiments.config import PresetName
from experiments.errors import UsageError
from experiments.figures import command, curves
from experiments.figures.runs import Run, Runs

LOSSES = {
    "rnd_loss": ("rnd", "RND: predictor's squared error"),
    "icm_forward_loss": ("icm", "ICM: forward model's squared error"),
    "icm_inverse_loss": ("icm", "ICM: inverse model's squared error"),
    "contrastive_loss": ("contrastive", "SE w/ Contrastive: cross-entropy"),
    "inverse_dynamics_loss": ("inverse_dynamics", "SE w/ Inverse Dynamics: squared error"),
}
"""Column of train.csv -> the bonus that writes it, and its title."""


Losses = dict[str, dict[str, dict[int, float]]]
"""Column of train.csv -> seed -> env frames -> loss, from the agent's first update on."""


def _load(folder: Path, column: str) -> dict[str, dict[int, float]]:
    path = folder / "train.csv"
    try:
        series = curves.read(path, column)
    except KeyError:
        raise UsageError(f"{path} has no column {column}: give another --runs") from None
    return {
        seed: {frames: loss for frames, loss in points.items() if np.isfinite(loss)}
        for seed, points in series.items()
    }


def _draw(losses: Losses) -> Figure:
    figure = Figure(figsize=(4.0 * len(losses), 3.4), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(losses), squeeze=False)[0]
    for axes, (column, of_seed) in zip(panels, losses.items(), strict=True):
        for colour, (seed, points) in zip(curves.COLOURS, of_seed.items(), strict=False):
            axes.plot(list(points), list(points.values()), color=colour, label=f"seed {seed}")
        axes.set_title(LOSSES[column][1], fontsize=9)
        axes.set(xlabel="env frames", yscale="log")
        axes.grid(alpha=0.25)
    panels[0].legend(frameon=False)
    return figure


def _make(words: command.Words) -> command.Lines:
    # One evaluation, at the end.
    changes = {"evaluation.every-env-frames": str(words.steps)}
    of_columns = [
        Run(words.task, bonus, words.preset, words.seeds, words.steps, "rad", changes)
        for bonus, _ in LOSSES.values()
    ]
    folders = Runs(words.runs, words.jobs).ensure_all(of_columns)
    losses = {name: _load(folder, name) for name, folder in zip(LOSSES, folders, strict=True)}
    words.out.mkdir(parents=True, exist_ok=True)
    table = [
        (name, seed, frames, f"{loss:.6g}")
        for name, of_seed in losses.items()
        for seed, points in of_seed.items()
        for frames, loss in points.items()
    ]
    curves.write_csv(words.out / "losses.csv", ("loss", "seed", "env_frames", "value"), table)
    _draw(losses).savefig(words.out / "losses.png")
    yield words.out / "losses.png"


OPTIONS: command.Options = {
    "--task": {"default": "cheetah_run_sparse"},
    "--preset": {"default": "small", "choices": get_args(PresetName)},
    "--seeds": {"type": int, "default": 3},
    "--steps": {"type": int, "default": 8_000, "help": "env frames"},
}

main = command.of("bonus_losses", _make, command.OF_RUNS | OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
