"""RE3 against no bonus from Python: curves, the probability that RE3 ends higher, a picture.

    python examples/python_api.py --env doorkey_6x6 --preset recommended --out comparison.png

The default preset is tiny and not meant to learn.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import re3_jax
from re3_jax.runs import curves, statistics
from re3_jax.runs.curves import Curve


def compare(env: str, bonuses: Sequence[str] = ("none", "re3"), **options: Any) -> list[Curve]:
    """Trains one run for each bonus, with the same options of `re3_jax.train`."""
    found = []
    for bonus in bonuses:
        run = re3_jax.train(env, bonus=bonus, **options)
        evaluations = run.curves
        found.append(Curve(bonus, evaluations["env_frames"], evaluations["return_mean"]))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the comparison and writes the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="doorkey_6x6")
    parser.add_argument("--preset", default="debug")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("comparison.png"))
    words = parser.parse_args(argv)
    without, with_re3 = compare(words.env, preset=words.preset, seeds=words.seeds)
    finals = with_re3.returns[:, -1], without.returns[:, -1]
    probability = statistics.probability_of_improvement(*finals)
    low, high = statistics.bootstrap_interval(statistics.probability_of_improvement, *finals)
    print(
        f"RE3 ends higher with probability {probability:.2f} (95% interval {low:.2f} to {high:.2f})"
    )
    curves.picture([without, with_re3], words.env).savefig(words.out)
    print(words.out)


if __name__ == "__main__":
    main()
