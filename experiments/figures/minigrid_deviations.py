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

from experiments.errors import UsageError
from experiments.figures import curves, rows

TASK = "doorkey_6x6"

ROWS: dict[str, tuple[str, str, dict[str, str]]] = {
    "released": ("re3", "released", {}),
    "5 frames per process": ("re3", "released", {"a2c.rollout-length": "5"}),
    "RMSprop eps 0.01": ("re3", "released", {"a2c.rmsprop-eps": "0.01"}),
    "bonus in the reward": ("re3", "released", {"a2c.bonus-target": "reward"}),
    "neighbours 2 to 3": (
        "re3",
        "released",
        {"re3.first-neighbour": "2", "re3.last-neighbour": "3"},
    ),
    "no normalisation": ("re3", "released", {"re3.normalize": "none"}),
    "exact running std": ("re3", "released", {"re3.normalize": "running_std"}),
    "paper": ("re3", "paper", {}),
    "paper, RMSprop eps 1e-8": ("re3", "paper", {"a2c.rmsprop-eps": "1e-8"}),
    "no bonus (released)": ("none", "released", {}),
}
"""Label: bonus, preset, and what is changed of it."""


def file_name(label: str) -> str:
    """A label as a file name."""
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in label)


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.minigrid_deviations")
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=Path, default=rows.RUNS)
    parser.add_argument("--out", type=Path, default=Path("results/minigrid_deviations"))
    words = parser.parse_args(argv)
    words.out.mkdir(parents=True, exist_ok=True)
    drawn = []
    try:
        for label, (bonus, preset, changes) in ROWS.items():
            folder = rows.ensure(
                TASK,
                bonus,
                preset,
                seeds=words.seeds,
                steps=words.steps,
                changes=changes,
                runs=words.runs,
            )
            shutil.copyfile(folder / "eval.csv", words.out / f"{file_name(label)}.csv")
            drawn.append(curves.load(label, [folder]))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    curves.draw(drawn, f"{TASK}, A2C + RE3, one change at a time", words.out / "curves.png")
    curves.write_table(drawn, words.out / "table.csv")
    print(words.out / "curves.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
