"""Whether what a bonus learns on pixels is learned: its losses over a run of RAD.

    make figure FIG=bonus_losses
    python -m experiments.figures.bonus_losses [--task TASK] [--preset small] [--seeds N]

Runs RAD with each bonus that learns something, where it has not been run, and writes a picture
with a panel for each loss, and losses.csv with all values. The frames are those that the agent
stored; the batches are those of its updates.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from experiments.config import PresetName
from experiments.errors import UsageError
from experiments.figures import rows
from experiments.figures.curves import COLOURS

LOSSES = {
    "rnd_loss": ("rnd", "RND: predictor's squared error"),
    "icm_forward_loss": ("icm", "ICM: forward model's squared error"),
    "icm_inverse_loss": ("icm", "ICM: inverse model's squared error"),
    "contrastive_loss": ("contrastive", "SE w/ Contrastive: cross-entropy"),
    "inverse_dynamics_loss": ("inverse_dynamics", "SE w/ Inverse Dynamics: squared error"),
}
"""Column of train.csv -> the bonus that has it, and its title."""


def load(path: Path, column: str) -> dict[int, Float[np.ndarray, " point 2"]]:
    """Seed -> (env frames, loss) wherever the agent had begun to learn.

    Raises:
      UsageError: the run has no such column.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            if column not in row:
                raise UsageError(f"{path} has no column {column}: give another --runs")
            point = float(row["env_frames"]), float(row[column])
            if np.isfinite(point[1]):
                found.setdefault(int(row["seed"]), []).append(point)
    return {seed: np.array(points) for seed, points in found.items()}


def draw(losses: dict[str, dict[int, np.ndarray]], out: Path) -> None:
    """A panel for each loss, a line for each seed; and all values beside it."""
    figure = Figure(figsize=(4.0 * len(losses), 3.4), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(losses), squeeze=False)[0]
    with (out / "losses.csv").open("w", newline="") as lines:
        table = csv.writer(lines)
        table.writerow(["loss", "seed", "env_frames", "value"])
        for axes, (column, of_seed) in zip(panels, losses.items(), strict=True):
            for colour, (seed, points) in zip(COLOURS, of_seed.items(), strict=False):
                axes.plot(*points.T, color=colour, label=f"seed {seed}")
                table.writerows([column, seed, int(x), f"{y:.6g}"] for x, y in points)
            axes.set_title(LOSSES[column][1], fontsize=9)
            axes.set_xlabel("env frames")
            axes.set_yscale("log")
            axes.grid(alpha=0.25)
    panels[0].legend(frameon=False)
    figure.savefig(out / "losses.png")


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.bonus_losses")
    parser.add_argument("--task", default="cheetah_run_sparse")
    parser.add_argument("--preset", default="small", choices=get_args(PresetName))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8_000, help="env frames")
    parser.add_argument("--runs", type=Path, default=rows.RUNS)
    parser.add_argument("--out", type=Path, default=Path("results/bonus_losses"))
    words = parser.parse_args(argv)
    words.out.mkdir(parents=True, exist_ok=True)
    losses = {}
    try:
        for column, (bonus, _) in LOSSES.items():
            folder = rows.ensure(
                words.task,
                bonus,
                words.preset,
                agent="rad",
                seeds=words.seeds,
                steps=words.steps,
                changes={"evaluation.every-env-frames": str(words.steps)},
                runs=words.runs,
            )
            losses[column] = load(folder / "train.csv", column)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    draw(losses, words.out)
    print(words.out / "losses.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
