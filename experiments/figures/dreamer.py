"""Dreamer with and without RE3, and two options, on a task in pixels that takes minutes.

make figure FIG=dreamer [ARGS="--jobs 2"]
python -m experiments.figures.dreamer [--seeds N] [--steps N]
"""

import sys
from functools import partial

from experiments.figures import with_re3
from experiments.figures.with_re3 import WITH_AND_WITHOUT, Panel, Row

WHOLE_RING = Row(" + RE3, whole ring", "re3", {"dreamer.neighbours": "ring"}, "re3-ring")

NARROW = Row(" + RE3, bfloat16", "re3", {"dreamer.precision": "bfloat16"}, "re3-bfloat16")

PANELS = {
    "bar": Panel(
        "pixels:bar",
        "A bar in pixels",
        5,
        2_400,
        losses=("image_loss", "reward_loss", "kl"),
        rows=(*WITH_AND_WITHOUT, WHOLE_RING, NARROW),
    ),
}

main = partial(with_re3.main, "dreamer", "Dreamer", PANELS)

if __name__ == "__main__":
    sys.exit(main())
