"""Which difference between paper and released code decides: one option at a time.

A2C + RE3 on DoorKey-6x6 with the `released` preset, and with each of its options set, alone,
to what the paper's text says; the `paper` preset, and that with RMSprop's epsilon released.

    make figure FIG=minigrid_deviations
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.figures import curves, rows

ROWS: dict[str, tuple[str, ...]] = {
    "released": (),
    "5 frames per process": ("--a2c.rollout-length", "5"),
    "RMSprop eps 0.01": ("--a2c.rmsprop-eps", "0.01"),
    "bonus in the reward": ("--a2c.bonus-target", "reward"),
    "neighbours 2 to 3": ("--re3.first-neighbour", "2", "--re3.last-neighbour", "3"),
    "no normalisation": ("--re3.normalize", "none"),
    "exact running std": ("--re3.normalize", "running_std"),
    "paper": ("--preset", "paper"),
    "paper, RMSprop eps 1e-8": ("--preset", "paper", "--a2c.rmsprop-eps", "1e-8"),
    "no bonus (released)": ("--bonus", "none"),
}


def file_name(label: str) -> str:
    """A label as a file name."""
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in label)


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.minigrid_deviations")
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=Path, default=Path("runs/figure-minigrid-deviations"))
    parser.add_argument("--out", type=Path, default=Path("results/minigrid_deviations"))
    words = parser.parse_args(argv)
    words.out.mkdir(parents=True, exist_ok=True)
    common = ["--env", "doorkey_6x6", "--seeds", str(words.seeds), "--steps", str(words.steps)]
    drawn = []
    for label, changes in ROWS.items():
        folder = words.runs / file_name(label)
        preset = () if "--preset" in changes else ("--preset", "released")
        rows.ensure(folder, [*common, *preset, *changes])
        shutil.copyfile(folder / "eval.csv", words.out / f"{file_name(label)}.csv")
        drawn.append(curves.load(label, [folder]))
    curves.draw(drawn, "doorkey_6x6, A2C + RE3", words.out / "curves.png")
    curves.write_table(drawn, words.out / "table.csv")
    print(words.out / "curves.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
