"""Whether each learned bonus learns from pixels: its losses over a run of RAD.

    make figure FIG=bonus_losses
    python -m experiments.figures.bonus_losses [--task TASK] [--preset small] [--seeds N]

Runs RAD with each bonus that learns, unless that run exists, and writes a picture with one panel
per loss and every run's train.csv. The bonus learns from the frames that the agent stored, in the
batches of the agent's updates.
"""

from functools import partial
from typing import get_args

import numpy as np
from matplotlib.figure import Figure

from experiments.figures import command, rows
from experiments.figures.rows import Row
from experiments.figures.runs import Run
from re3_jax.runs import curves
from re3_jax.runs.config import PresetName

LOSSES = {
    "rnd_loss": ("rnd", "RND: norm of the predictor's error"),
    "icm_forward_loss": ("icm", "ICM: forward model's squared error"),
    "icm_inverse_loss": ("icm", "ICM: norm of the action's error"),
    "contrastive_loss": ("contrastive", "SE w/ Contrastive: cross-entropy"),
    "inverse_dynamics_loss": ("inverse_dynamics", "SE w/ Inverse Dynamics: squared error"),
}
"""Column of train.csv -> the bonus that writes it, and its title."""


def _draw(words: command.Words) -> Figure:
    figure = Figure(figsize=(4.0 * len(LOSSES), 3.4), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(LOSSES))
    for axes, (column, (bonus, title)) in zip(panels, LOSSES.items(), strict=True):
        of_seeds = curves.read(words.out / f"{bonus}-train.csv", column)
        for colour, (seed, points) in zip(curves.COLOURS, of_seeds.items(), strict=False):
            # Empty until the agent's first update.
            losses = {frames: loss for frames, loss in points.items() if np.isfinite(loss)}
            axes.plot(list(losses), list(losses.values()), color=colour, label=f"seed {seed}")
        axes.set_title(title, fontsize=9)
        axes.set(xlabel="env frames", yscale="log")
        axes.grid(alpha=0.25)
    panels[0].legend(frameon=False)
    return figure


def _make(words: command.Words) -> command.Lines:
    # One evaluation, at the end.
    changes = {"evaluation.every-env-frames": str(words.steps)}
    run = partial(Run, words.task, preset=words.preset, seeds=words.seeds, steps=words.steps)
    bonuses = dict.fromkeys(bonus for bonus, _ in LOSSES.values())
    chosen = [Row(one, one, run(one, agent="rad", changes=changes)) for one in bonuses]
    rows.load(words, chosen, ["train"])
    _draw(words).savefig(words.out / "losses.png")
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
