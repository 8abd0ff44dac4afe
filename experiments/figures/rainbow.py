"""Rainbow with and without RE3, on MinAtar and where rewards are rare.

make figure FIG=rainbow [ARGS="--jobs 2"]
python -m experiments.figures.rainbow [--tasks breakout deep_sea] [--seeds N] [--steps N]
"""

import sys
from functools import partial

from experiments.figures import with_re3
from experiments.figures.with_re3 import Panel, Row

PANELS = {
    "breakout": Panel("gymnax:Breakout-MinAtar", "Breakout (MinAtar)", 5, 400_000),
    "deep_sea": Panel(
        "gymnax:DeepSea-bsuite-14",
        "DeepSea of 14 rows",
        10,
        60_000,
        rows=(
            Row(", epsilon-greedy", "none"),
            Row(", noisy layers", "none", {"rainbow.noisy": True}, "noisy"),
            Row(", epsilon-greedy + RE3", "re3"),
        ),
    ),
}

main = partial(with_re3.main, "rainbow", "Rainbow", PANELS)

if __name__ == "__main__":
    sys.exit(main())
