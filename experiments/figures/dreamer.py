"""Dreamer with and without RE3 on a task in pixels that takes minutes.

make figure FIG=dreamer [ARGS="--jobs 2"]
python -m experiments.figures.dreamer [--seeds N] [--steps N]
"""

import sys
from functools import partial

from experiments.figures import with_re3
from experiments.figures.with_re3 import Panel

PANELS = {
    "bar": Panel(
        "pixels:bar", "A bar in pixels", 5, 2_400, losses=("image_loss", "reward_loss", "kl")
    ),
}

main = partial(with_re3.main, "dreamer", "Dreamer", PANELS)

if __name__ == "__main__":
    sys.exit(main())
