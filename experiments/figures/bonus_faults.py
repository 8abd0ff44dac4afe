"""What the diagnostics of a right bonus look like, and those of two wrong ones.

    make figure FIG=bonus_faults
    python -m experiments.figures.bonus_faults [--seeds N] [--steps N]

A2C + RE3 on DoorKey-6x6 with the preset `recommended`; the same with a weight 100 times as large;
and the same with an encoder that gives every observation the same latent. Runs what is missing,
and writes a picture and every run's tables. The faults are planted to be seen: the picture
compares no methods.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.figures import command, rows
from experiments.figures.rows import Row
from experiments.figures.runs import Run
from re3_jax.runs import curves
from re3_jax.runs.resolve import resolve

TASK = "doorkey_6x6"
PLUGIN = Path(__file__).with_name("constant_latents.py")

PANELS = {
    "intrinsic_reward_mean": "mean bonus of a step",
    "intrinsic_reward_p95": "95% quantile of the bonus",
    "running_std": "running std of the distances",
    "duplicate_share": "share of observations at distance 0",
}
"""Column of train.csv -> its title."""

LOGARITHMIC = "intrinsic_reward_mean", "intrinsic_reward_p95"
"""Columns whose rows differ by factors."""


def _rows() -> list[Row]:
    beta = resolve(TASK).re3.beta

    def run(bonus: str = "re3", **changes: str) -> Run:
        return Run(TASK, bonus, "recommended", seeds=5, steps=400_000, changes=changes)

    return [
        Row("right", "right", run()),
        Row("beta 100 times too large", "large_beta", run(**{"re3.beta": f"{100 * beta:g}"})),
        Row("constant latents", "constant_latents", run("constant_latents", plugin=str(PLUGIN))),
    ]


def _draw(out: Path, chosen: list[Row]) -> Figure:
    """The picture of the tables in `out`; runs may have come to different frames."""
    figure = Figure(figsize=(3.8 * (1 + len(PANELS)), 3.4), dpi=110, layout="constrained")
    titles = {"return_mean": "evaluation return"} | PANELS
    for axes, (column, title) in zip(figure.subplots(1, len(titles)), titles.items(), strict=True):
        for row, colour in zip(chosen, curves.COLOURS, strict=False):
            table = "" if column == "return_mean" else "-train"
            of_seeds = curves.read(out / f"{row.name}{table}.csv", column).values()
            _, frames, values = curves.common(row.label, of_seeds)
            axes.plot(frames, np.mean(values, axis=0), color=colour, label=row.label)
        axes.set_title(title, fontsize=9)
        axes.set(xlabel="env frames")
        axes.grid(alpha=0.25)
        if column in LOGARITHMIC:
            axes.set_yscale("symlog", linthresh=1e-4)
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def _make(words: command.Words) -> command.Lines:
    chosen = _rows()
    rows.load(words, chosen, ["eval", "train"])
    _draw(words.out, chosen).savefig(words.out / "diagnostics.png")
    yield words.out / "diagnostics.png"


main = command.of("bonus_faults", _make, command.STEPS | command.OF_RUNS)

if __name__ == "__main__":
    raise SystemExit(main())
